package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"
)

type options struct {
	address    string
	request    request
	tls        *tls.Config
	reconnect  bool
	poll       bool
	status     int
	length     int
	contains   string
	start, end time.Time
	left       atomic.Int64
	idle       atomic.Int64 // nanoseconds of polls without data
}

// request is the bytes of one request, and the index of its review's uid (0: none).
type request struct {
	bytes []byte
	uid   int
}

const uidLength = 36

func newRequest(target *url.URL, body []byte) request {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: load\r\nContent-Type: application/json\r\n"+
		"Accept: application/json\r\nContent-Length: %d\r\n\r\n", target.RequestURI(), target.Host, len(body))
	uid := 0
	if at := bytes.Index(body, []byte(`"request":{"uid":"`)); at >= 0 {
		uid = len(head) + at + len(`"request":{"uid":"`)
	}
	return request{append([]byte(head), body...), uid}
}

// worker is one connection. Every request has another uid, so that no server can cache responses.
type worker struct {
	options  *options
	request  []byte
	uid      []byte
	number   int
	sent     int
	conn     net.Conn
	reader   *bufio.Reader
	body     []byte
	times    []time.Duration
	failures map[string]int
}

func newWorker(o *options, number int) *worker {
	w := &worker{options: o, number: number, request: bytes.Clone(o.request.bytes), failures: map[string]int{}}
	if o.request.uid > 0 {
		w.uid = w.request[o.request.uid : o.request.uid+uidLength]
	}
	w.body = make([]byte, 0, 64<<10)
	w.times = make([]time.Duration, 0, 1<<16)
	return w
}

func (w *worker) work() {
	for w.options.left.Add(-1) >= 0 {
		began := time.Now()
		if began.After(w.options.end) {
			break
		}
		reason := w.call()
		took := time.Since(began)
		switch {
		case reason != "":
			w.failures[reason]++
			w.hangUp()
			time.Sleep(time.Millisecond)
		case !began.Before(w.options.start) && began.Add(took).Before(w.options.end):
			w.times = append(w.times, took)
		}
		if w.options.reconnect {
			w.hangUp()
		}
	}
	w.hangUp()
}

// call sends one request. It returns why the response is not good, or "".
func (w *worker) call() string {
	if w.uid != nil {
		w.sent++
		copy(w.uid, fmt.Sprintf("%08x-0000-4000-8000-%012x", w.number, w.sent))
	}
	if w.conn == nil {
		if err := w.dial(); err != nil {
			return "connect: " + short(err)
		}
	}
	w.conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := w.conn.Write(w.request); err != nil {
		return "write: " + short(err)
	}
	response, err := http.ReadResponse(w.reader, nil)
	if err != nil {
		return "read: " + short(err)
	}
	body := bytes.NewBuffer(w.body[:0])
	_, err = body.ReadFrom(response.Body)
	response.Body.Close()
	if err != nil {
		return "read: " + short(err)
	}
	w.body = body.Bytes()
	return w.judge(response.StatusCode)
}

func (w *worker) judge(status int) string {
	o := w.options
	switch {
	case status != o.status:
		return fmt.Sprintf("status %d", status)
	case o.length > 0 && len(w.body) != o.length:
		return fmt.Sprintf("length %d", len(w.body))
	case w.uid != nil && !bytes.Contains(w.body, w.uid):
		return "another uid"
	case o.contains != "" && !bytes.Contains(w.body, []byte(o.contains)):
		return "text is missing"
	}
	return ""
}

func (w *worker) dial() error {
	plain, err := net.DialTimeout("tcp", w.options.address, 10*time.Second)
	if err != nil {
		return err
	}
	carrier := plain
	if w.options.poll {
		if carrier, err = newPolled(plain, &w.options.idle); err != nil {
			plain.Close()
			return err
		}
	}
	carrier.SetDeadline(time.Now().Add(10 * time.Second))
	conn := tls.Client(carrier, w.options.tls)
	if err := conn.Handshake(); err != nil {
		plain.Close()
		return err
	}
	w.conn, w.reader = conn, bufio.NewReaderSize(conn, 16<<10)
	return nil
}

func (w *worker) hangUp() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

func short(err error) string {
	if err == io.EOF {
		return "closed"
	}
	if operation, ok := err.(*net.OpError); ok {
		return operation.Err.Error()
	}
	return err.Error()
}

func pool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found := x509.NewCertPool()
	if !found.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return found, nil
}
