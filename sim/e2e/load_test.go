package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// burden is what the robot's computer has to do besides: programs that use a core each, and clients of the agent.
type burden struct {
	requests, failed atomic.Int64
	end              func() // ends it and waits; may be called again
}

const (
	hogs    = 2
	perS    = 200 // requests a second, of all clients
	clients = 4
)

// load begins it. Commands of the clients are stops, so that the sticks drive.
func load(t *testing.T, base string) *burden {
	t.Helper()
	b := &burden{}
	var programs []*exec.Cmd
	for range hogs {
		hog := exec.Command("sh", "-c", "while :; do :; done")
		hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := hog.Start(); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, hog)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			every := time.NewTicker(time.Second * clients / perS)
			defer every.Stop()
			clock := 0.
			for n := i; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-every.C:
				}
				what, url, body := http.MethodGet, base+"state", ""
				switch n % 20 {
				case 0:
					url = strings.TrimSuffix(base, "/api/v1/") + "/metrics"
				case 1, 5, 9, 13, 17:
					what, url, body = http.MethodPost, base+"command", fmt.Sprintf(`{"vx":0,"vy":0,"wz":0,"expires":%.6f}`, clock+0.5)
				}
				code, answer, err := call(what, url, body)
				b.requests.Add(1)
				if err != nil || code != 200 && code != 409 && code != 503 { // 409: it came too late; 503: too many scrapes at once
					b.failed.Add(1)
				}
				var s state
				if what == http.MethodGet && json.Unmarshal(answer, &s) == nil {
					clock = s.Clock
				}
			}
		})
	}
	b.end = sync.OnceFunc(func() {
		cancel()
		for _, hog := range programs {
			_ = hog.Process.Kill()
			_ = hog.Wait()
		}
		all.Wait()
	})
	t.Cleanup(b.end)
	return b
}

// metrics are the samples of the agent's /metrics by name and labels.
func (p *pair) metrics() map[string]float64 {
	p.t.Helper()
	code, b, err := call(http.MethodGet, strings.TrimSuffix(p.http, "/api/v1/")+"/metrics", "")
	if err != nil || code != 200 {
		p.t.Fatalf("metrics: %d %v", code, err)
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if x, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(name, "#") {
			all[name] = x
		}
	}
	return all
}
