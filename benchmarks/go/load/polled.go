package main

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// polled is a connection whose reader looks again and again, where others sleep until there is something.
//
// On a virtual machine the processor of a sleeping reader halts, and to wake it is an interrupt that the sender's own
// processor pays for: on the machine of the README some 20 microseconds for each answer, of whichever server. An API
// server on another node is not woken at its webhook's cost, so neither is this one, where it has a core to itself.
type polled struct {
	net.Conn
	raw      syscall.RawConn
	deadline time.Time
	idle     *atomic.Int64 // nanoseconds that went into looks that found nothing
}

func newPolled(plain net.Conn, idle *atomic.Int64) (*polled, error) {
	raw, err := plain.(*net.TCPConn).SyscallConn()
	return &polled{Conn: plain, raw: raw, idle: idle}, err
}

func (p *polled) SetDeadline(t time.Time) error {
	p.deadline = t
	return p.Conn.SetDeadline(t)
}

func (p *polled) Read(into []byte) (int, error) {
	for {
		began := time.Now()
		size, err := p.look(into)
		if err != syscall.EAGAIN && err != syscall.EINTR {
			if size == 0 && err == nil {
				err = io.EOF
			}
			return max(size, 0), err
		}
		if !p.deadline.IsZero() && began.After(p.deadline) {
			return 0, os.ErrDeadlineExceeded
		}
		p.idle.Add(int64(time.Since(began)))
		runtime.Gosched() // the other connections' turn
	}
}

// look reads what is there now.
func (p *polled) look(into []byte) (size int, err error) {
	outer := p.raw.Read(func(file uintptr) bool {
		size, err = syscall.Read(int(file), into)
		return true // whatever came of it: do not wait
	})
	if outer != nil {
		return 0, outer
	}
	return size, err
}
