// Load sends one HTTP/1.1 request repeatedly, checks every response, and reports latencies.
//
// It is written to cost less than any server that it measures: the request is built once, and each connection is
// one goroutine that writes it, reads the response and compares. A line "measuring" on standard output marks the end
// of the warm-up; the last line is the result as JSON. Use it only on loopback.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

type result struct {
	Calls    int            `json:"calls"`   // with a good response, while measuring
	Seconds  float64        `json:"seconds"` // duration of the measurement
	P50      float64        `json:"p50_us"`
	P90      float64        `json:"p90_us"`
	P99      float64        `json:"p99_us"`
	Max      float64        `json:"max_us"`
	CPU      float64        `json:"client_cpu_seconds"`
	Idle     float64        `json:"client_idle_seconds"` // of that, polling without a response
	Failures map[string]int `json:"failures"`            // of the whole run, by reason
}

func main() {
	o := &options{}
	target := flag.String("url", "", "https URL on loopback")
	body := flag.String("body", "", "file with the request's body")
	ca := flag.String("ca", "", "PEM file that the server's certificate is verified with")
	certificate := flag.String("cert", "", "PEM file: the client's certificate")
	key := flag.String("key", "", "PEM file: its key")
	name := flag.String("name", "localhost", "the server's name in its certificate")
	connections := flag.Int("connections", 1, "connections, each with one request at a time")
	warmup := flag.Duration("warmup", 300*time.Millisecond, "time before measuring")
	duration := flag.Duration("duration", 2*time.Second, "time to measure")
	calls := flag.Int64("calls", 0, "stop after so many calls; 0: after the duration")
	flag.BoolVar(&o.poll, "poll", false, "look for answers all the time instead of sleeping: for a core of its own")
	flag.BoolVar(&o.reconnect, "reconnect", false, "a new connection, with a full handshake, for every request")
	flag.IntVar(&o.status, "status", 200, "the status that every answer must have")
	flag.IntVar(&o.length, "length", 0, "the length that every answer's body must have; 0: any")
	flag.StringVar(&o.contains, "contains", "", "text that every answer's body must have")
	flag.Parse()

	parsed, err := url.Parse(*target)
	check(err)
	if host := parsed.Hostname(); host != "127.0.0.1" && host != "localhost" {
		check(fmt.Errorf("%s is not loopback", host))
	}
	o.address = parsed.Host
	payload, err := os.ReadFile(*body)
	check(err)
	o.request = newRequest(parsed, payload)
	o.tls, err = trust(*ca, *certificate, *key, *name)
	check(err)

	r := run(o, *connections, *warmup, *duration, *calls)
	check(json.NewEncoder(os.Stdout).Encode(r))
}

// run lets all connections work until the time is over or the number of calls is reached.
func run(o *options, connections int, warmup, duration time.Duration, calls int64) result {
	o.start = time.Now().Add(warmup)
	o.end = o.start.Add(duration)
	if calls > 0 {
		o.end = o.start.Add(time.Hour)
		o.left.Store(calls)
	} else {
		o.left.Store(1 << 60)
	}
	workers := make([]*worker, connections)
	var group sync.WaitGroup
	for i := range workers {
		workers[i] = newWorker(o, i)
		group.Go(workers[i].work)
	}
	time.Sleep(time.Until(o.start))
	fmt.Println("measuring")
	before, idle := cpu(), o.idle.Load()
	group.Wait()
	r := sum(workers, min(time.Since(o.start), o.end.Sub(o.start)))
	r.CPU, r.Idle = cpu()-before, time.Duration(o.idle.Load()-idle).Seconds()
	return r
}

func sum(workers []*worker, took time.Duration) result {
	all := []time.Duration{}
	failures := map[string]int{}
	for _, w := range workers {
		all = append(all, w.times...)
		for reason, count := range w.failures {
			failures[reason] += count
		}
	}
	slices.Sort(all)
	return result{
		Calls: len(all), Seconds: took.Seconds(), Failures: failures,
		P50: at(all, 0.5), P90: at(all, 0.9), P99: at(all, 0.99), Max: at(all, 1),
	}
}

// at returns a quantile of sorted times, in microseconds.
func at(sorted []time.Duration, quantile float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	index := min(int(quantile*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[index].Nanoseconds()) / 1000
}

// cpu returns the CPU time that this process has used, in seconds.
func cpu() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func trust(ca, certificate, key, name string) (*tls.Config, error) {
	pool, err := pool(ca)
	if err != nil {
		return nil, err
	}
	// Without a session cache every handshake is a full one, like those of an API server.
	config := &tls.Config{RootCAs: pool, ServerName: name, NextProtos: []string{"http/1.1"}}
	if certificate == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}
