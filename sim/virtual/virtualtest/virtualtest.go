// Package virtualtest runs a virtual Go1 in the process of a test, on real sockets.
//
//	r := virtualtest.Start(t, virtual.DefaultConfig())   // lockstep, any free port, ends with the test
//	loop := control.New(..., link.DialUDP(r.Addr()))
//	r.Fault("drop_state@now+0.1")
//	r.Stop(); for _, rec := range r.Records("command") { ... }
package virtualtest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/openclaw-rl/openclaw/sim/virtual"
)

// Robot is a running virtual robot.
type Robot struct {
	*virtual.Robot
	t    testing.TB
	stop func()
	done chan error
	once sync.Once
	log  buffer
}

// Config is the default, on any free port of the loopback address and in lockstep.
func Config() virtual.Config {
	cfg := virtual.DefaultConfig()
	cfg.Listen = netip.MustParseAddrPort("127.0.0.1:0")
	cfg.Lockstep = true
	return cfg
}

// Start starts a robot that ends with the test. Its log is kept (Records) besides going to cfg.Log.
func Start(t testing.TB, cfg virtual.Config) *Robot {
	t.Helper()
	r := &Robot{t: t, done: make(chan error, 1)}
	r.log.also = cfg.Log
	cfg.Log = &r.log
	var err error
	if r.Robot, err = virtual.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.done <- r.Run(ctx) }()
	t.Cleanup(r.Stop)
	return r
}

// Stop ends the robot and fails the test when it ended with an error. It may be called again.
func (r *Robot) Stop() {
	r.t.Helper()
	r.once.Do(func() {
		r.stop()
		if err := <-r.done; err != nil {
			r.t.Errorf("robot: %v", err)
		}
		r.Close()
	})
}

// Fault injects one in text form.
func (r *Robot) Fault(text string) {
	r.t.Helper()
	f, err := virtual.ParseFault(text)
	if err == nil {
		err = r.Inject(f)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// Record is one of the log; numbers are float64, lists []any.
type Record map[string]any

// Number is a number of the record; 0 where there is none.
func (r Record) Number(key string) float64 { v, _ := r[key].(float64); return v }

// Text is a text of the record.
func (r Record) Text(key string) string { v, _ := r[key].(string); return v }

// Tick is the robot's clock, ms.
func (r Record) Tick() int { return int(r.Number("tick")) }

// Log is what has been written so far.
func (r *Robot) Log() []byte { return r.log.bytes() }

// Records are those written so far, of the given events, or all. What is younger than 0.1 s may be missing until Stop.
func (r *Robot) Records(events ...string) []Record {
	r.t.Helper()
	recs, err := ParseLog(r.Log(), events...)
	if err != nil {
		r.t.Fatal(err)
	}
	return recs
}

// ParseLog reads a log; a last line that is cut short is left out.
func ParseLog(log []byte, events ...string) (recs []Record, err error) {
	end := bytes.LastIndexByte(log, '\n')
	for line := range strings.Lines(string(log[:end+1])) {
		var rec Record
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			return nil, err
		}
		keep := len(events) == 0
		for _, e := range events {
			keep = keep || rec["event"] == e
		}
		if keep {
			recs = append(recs, rec)
		}
	}
	return recs, nil
}

type buffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	also interface{ Write([]byte) (int, error) }
}

func (w *buffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(p)
	if w.also != nil {
		return w.also.Write(p)
	}
	return len(p), nil
}

func (w *buffer) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.b.Bytes())
}
