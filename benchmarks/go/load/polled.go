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

// polled is a connection that is busy-polled instead of waiting for readiness.
//
// On a virtual machine the CPU of a sleeping reader halts, and the interrupt that wakes it costs the sender CPU time: on
// the machine of the README about 20 microseconds per response, for any server. In a cluster the API server is on
// another node and this cost does not exist, so it is avoided here if the load generator has a core to itself.
type polled struct {
	net.Conn
	raw      syscall.RawConn
	deadline time.Time
	idle     *atomic.Int64 // nanoseconds of polls without data
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
		size, err := p.poll(into)
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
		runtime.Gosched() // let the other connections run
	}
}

// poll reads what is available now.
func (p *polled) poll(into []byte) (size int, err error) {
	outer := p.raw.Read(func(file uintptr) bool {
		size, err = syscall.Read(int(file), into)
		return true // do not wait, whatever the result
	})
	if outer != nil {
		return 0, outer
	}
	return size, err
}
