package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/openclaw-rl/openclaw/sim/virtual"
)

const (
	demoHTTPTime  = 5 * time.Second
	demoReplyMost = 1 << 20 // bytes
)

// agentClient is an operator's program: it knows the agent's HTTP interface and nothing else of it.
type agentClient struct {
	base string // http://HOST:PORT/api/v1/
	http http.Client

	// The agent's clock was clock at the local time at; between requests it goes on alike.
	clock float64 // s
	at    time.Time
}

func newAgentClient(addr string) *agentClient {
	return &agentClient{base: "http://" + addr + "/api/v1/", http: http.Client{Timeout: demoHTTPTime}}
}

// agentState is what the demo reads of GET /api/v1/state.
type agentState struct {
	Clock  float64     `json:"clock"`
	Mode   string      `json:"mode"`
	Phase  string      `json:"phase"`
	Fault  *agentFault `json:"fault"`
	Remote struct {
		Present bool `json:"present"`
	} `json:"remote"`
	Loop struct {
		States uint64 `json:"states"`
	} `json:"loop"`
}

// agentFault is a latched one.
type agentFault struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Remedy string `json:"remedy"`
}

// agentRefusal is a reply that is not 200.
type agentRefusal struct {
	status int
	Text   string `json:"error"`
	Code   string `json:"code"`
}

func (e *agentRefusal) Error() string { return fmt.Sprintf("%s (%d %s)", e.Text, e.status, e.Code) }

func (a *agentClient) state(ctx context.Context) (s agentState, err error) {
	err = a.do(ctx, http.MethodGet, "state", nil, &s)
	if err == nil {
		a.clock, a.at = s.Clock, time.Now()
	}
	return s, err
}

// post asks for something; nil when it was carried out.
func (a *agentClient) post(ctx context.Context, what string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var done struct {
		Clock float64 `json:"clock"`
	}
	if err := a.do(ctx, http.MethodPost, what, b, &done); err != nil {
		return err
	}
	a.clock, a.at = done.Clock, time.Now()
	return nil
}

func (a *agentClient) mode(ctx context.Context, mode string) error {
	return a.post(ctx, "mode", map[string]string{"mode": mode})
}

// command asks for a velocity from now on for a time. state or post was called before.
func (a *agentClient) command(ctx context.Context, v [3]float64, valid time.Duration) error {
	expires := a.clock + (time.Since(a.at) + valid).Seconds()
	return a.post(ctx, "command", map[string]float64{"vx": v[0], "vy": v[1], "wz": v[2], "expires": expires})
}

func (a *agentClient) do(ctx context.Context, method, what string, body []byte, out any) error {
	return exchange(ctx, &a.http, method, a.base+what, body, out)
}

func exchange(ctx context.Context, c *http.Client, method, url string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, demoReplyMost))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, url, err)
	}
	if resp.StatusCode != http.StatusOK {
		refusal := &agentRefusal{status: resp.StatusCode}
		if json.Unmarshal(b, refusal) != nil || refusal.Text == "" {
			refusal.Text = fmt.Sprintf("%s %s: %s", method, url, resp.Status)
		}
		return refusal
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, url, err)
	}
	return nil
}

// truthClient looks at the virtual robot's physics, for the story; the verdict comes from the log.
type truthClient struct {
	url  string
	http http.Client
}

func newTruthClient(addr string) *truthClient {
	return &truthClient{url: "http://" + addr + "/status", http: http.Client{Timeout: demoHTTPTime}}
}

func (t *truthClient) status(ctx context.Context) (s virtual.Status, err error) {
	err = exchange(ctx, &t.http, http.MethodGet, t.url, nil, &s)
	return s, err
}
