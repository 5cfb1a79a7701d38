package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestDrive: against a fake agent that keeps the commands, drive speaks the API and lets none outlive it.
func TestDrive(t *testing.T) {
	var mu sync.Mutex
	var got []map[string]float64
	refuse := false
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/state", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"clock": 1000.5, "mode": "policy"}`))
	})
	mux.HandleFunc("POST /api/v1/command", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var m map[string]float64
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v, content type %q", err, r.Header.Get("Content-Type"))
		}
		got = append(got, m)
		if refuse {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error":"control: velocity commands are taken only in mode policy"}`))
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")

	r := clawagent(t, "drive", "--http", addr, "--seconds", "0.3", "--json", "--", "0.5", "-0.1", "0.25")
	var sum struct {
		OK   bool
		Sent int
	}
	r.lastJSON(t, &sum)
	if r.code != 0 || !sum.OK || sum.Sent != len(got) || len(got) == 0 {
		t.Fatalf("exit code %d, %+v, %d commands: %s", r.code, sum, len(got), r.stderr)
	}
	last := 1000.5
	for _, m := range got {
		if len(m) != 4 || m["vx"] != 0.5 || m["vy"] != float64(float32(-0.1)) && m["vy"] != -0.1 || m["wz"] != 0.25 || m["expires"] <= last {
			t.Fatalf("%v after %v", m, last)
		}
		last = m["expires"]
	}

	refuse = true
	r = clawagent(t, "drive", "--http", addr, "0", "0", "0")
	if r.code != 1 || !strings.Contains(r.stderr, "only in mode policy") {
		t.Errorf("refused: exit code %d: %s", r.code, r.stderr)
	}
	server.Close()
	if r = clawagent(t, "drive", "--http", addr, "0", "0", "0"); r.code != 1 {
		t.Errorf("nobody there: exit code %d: %s", r.code, r.stderr)
	}
	for _, args := range [][]string{{"0", "0"}, {"NaN", "0", "0"}, {"0", "1e400", "0"}, {"0", "0", "fast"}, {"0", "0", "0", "--seconds", "0"}, {"0", "0", "0", "--seconds", "NaN"}} {
		if r := clawagent(t, append([]string{"drive"}, args...)...); r.code != 2 {
			t.Errorf("%v: exit code %d: %s", args, r.code, r.stderr)
		}
	}
}
