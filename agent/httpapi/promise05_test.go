package httpapi

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/promise"
)

// grantedClock is virtual time that goes on by as much as the test grants, so that the test knows at which instant of the robot's
// clock a request arrives.
type grantedClock struct {
	mu     sync.Mutex
	moved  *sync.Cond
	now    int64
	until  int64 // ticks due by then may begin
	halted bool  // the loop waits for more

	bend  func() int64 // how late the loop wakes, ns; nil: never
	wakes []wake       // all so far
}

// wake is one return from a sleep.
type wake struct{ deadlineNs, atNs int64 }

func newGrantedClock(now int64) *grantedClock {
	c := &grantedClock{now: now, until: math.MaxInt64}
	c.moved = sync.NewCond(&c.mu)
	return c
}

func (c *grantedClock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *grantedClock) SleepUntil(deadlineNs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for deadlineNs > c.until {
		c.halted = true
		c.moved.Broadcast()
		c.moved.Wait()
	}
	c.halted = false
	late := int64(0)
	if c.bend != nil {
		late = c.bend()
	}
	c.now = max(c.now, deadlineNs+late)
	c.wakes = append(c.wakes, wake{deadlineNs, c.now})
}

// grant lets ns more pass and waits until they have; math.MaxInt64 lets time run.
func (c *grantedClock) grant(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ns == math.MaxInt64 {
		c.until = ns
		c.moved.Broadcast()
		return
	}
	c.until = c.now + ns
	c.halted = false
	c.moved.Broadcast()
	for !c.halted {
		c.moved.Wait()
	}
}

// posted is a velocity command as a client sends it.
type posted struct {
	v    [3]float32
	ends int64 // ns on the robot's clock
}

func (p posted) body() string {
	text := func(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }
	return fmt.Sprintf(`{"vx":%s,"vy":%s,"wz":%s,"expires":%.9f}`, text(p.v[0]), text(p.v[1]), text(p.v[2]), float64(p.ends)/1e9)
}

// rules is design.md's law of commands in the words of this test: taken while 0 < end - now <= 2 s, in the order of their ends, a stop
// in any order.
type rules struct {
	newest posted
	last   int64 // largest end taken
	ever   bool
}

func (m *rules) take(now int64, p posted) (status int, code string) {
	switch {
	case p.ends-now <= 0:
		return 409, "expired"
	case p.ends-now > 2e9:
		return 400, "too_distant"
	case m.ever && p.ends <= m.last && p.v != [3]float32{}:
		return 409, "older"
	}
	m.newest, m.last, m.ever = p, max(m.last, p.ends), true
	return 200, ""
}

// late draws the next command of a client whose line repeats, delays and swaps, and whose clocks are wrong at times.
func late(random *rand.Rand, now int64, before []posted) (p posted, what string) {
	p.v = [3]float32{float32(random.Float64()*2.5 - 1), float32(random.Float64() - 0.5), float32(random.Float64()*2 - 1)}
	if random.IntN(20) == 0 {
		p.v = [3]float32{}
	}
	const hour = int64(3600e9)
	switch k := random.IntN(100); {
	case k < 10 && len(before) > 0:
		return before[len(before)-1-random.IntN(min(16, len(before)))], "repeated"
	case k < 22:
		p.ends, what = now-random.Int64N(5e9)*random.Int64N(2), "past"
	case k < 34:
		p.ends, what = now+2e9+1+random.Int64N(hour)*random.Int64N(2), "distant"
	case k < 42: // an end by a wall clock that was set
		p.ends, what = now+hour*(2*random.Int64N(2)-1)+random.Int64N(2e9), "wall clock"
	case k < 46:
		p.ends, what = now+1+random.Int64N(4e6), "brief"
	case k < 48:
		p.ends, what = now+2e9, "just in reach"
	default:
		p.ends, what = now+1+random.Int64N(2e9), "good"
	}
	return p, what
}

// TestPromise05: late, early, repeated and overtaken commands do nothing, and no clock but the robot's monotonic one says which they
// are. A case is 1000 commands over HTTP to the real control loop, of which one in ten comes twice and one in ten is overtaken, with
// Date headers of wall clocks that are an hour off; what must become of each is known to the nanosecond, because the loop's time stands
// still meanwhile. OPENCLAW_SOAK=5 sends all 100 000.
func TestPromise05(t *testing.T) {
	promise.New(t, 5, 1, 100).Run(t, func(t *testing.T, seed uint64) map[string]any {
		random := rand.New(rand.NewPCG(seed, 5))
		clock := newGrantedClock(20_000e9) // more than an hour after the robot's start
		loop, _ := startLoopOn(t, clock, still{}, 60000)
		t.Cleanup(func() { clock.grant(math.MaxInt64) })
		r := start(t, loop)
		walkOn(t, loop)
		clock.grant(0)

		sent, counts := 0, map[string]int{}
		var model rules
		var before, held []posted
		send := func(p posted) {
			now := loop.NowNs()
			known := model
			status, code := model.take(now, p)
			copies := 1
			if random.IntN(50) == 0 { // the line makes three of it, at once
				copies = 3
			}
			got := make([]*answer, copies)
			var all sync.WaitGroup
			for i := range got {
				date := time.Now().Add(time.Duration(random.Int64N(7200e9) - 3600e9)).UTC().Format(http.TimeFormat)
				all.Go(func() { got[i] = r.dated(p.body(), date) })
			}
			all.Wait()
			sent += copies
			want := []string{fmt.Sprint(status, " ", code)}
			for len(want) < copies {
				again, code := model.take(now, p)
				want = append(want, fmt.Sprint(again, " ", code))
			}
			var is []string
			for _, a := range got {
				code := ""
				if a.status != 200 {
					_, code, _ = a.error(t)
				}
				is = append(is, fmt.Sprint(a.status, " ", code))
			}
			slices.Sort(is)
			slices.Sort(want)
			if !slices.Equal(is, want) {
				t.Fatalf("command %d, ends %d ns from now, newest taken %+v: %q, want %q", sent, p.ends-now, known, is, want)
			}
			counts[strings.TrimSpace(fmt.Sprint(status, " ", code))]++
		}
		var last [3]float32
		followedAny := false
		for sent < 1000 {
			p, what := late(random, loop.NowNs(), before)
			counts[what]++
			before = append(before, p)
			switch {
			case random.IntN(10) == 0: // overtaken by the next
				held = append(held, p)
				counts["overtaken"]++
			default:
				send(p)
				for _, h := range held {
					send(h)
				}
				held = held[:0]
			}
			for range random.IntN(10) {
				clock.grant(control.PeriodNs)
				var s control.Snapshot
				loop.Snapshot(&s)
				if s.Mode != control.Policy || s.Asked != model.newest.v {
					t.Fatalf("after %d commands: mode %v, asked %v, want policy and %v", sent, s.Mode, s.Asked, model.newest.v)
				}
				past := s.NowNs - model.newest.ends
				for i, f := range s.Command {
					if f-f != 0 || past > 0 && math.Abs(float64(f)) > math.Abs(float64(last[i])) || past >= 252e6 && f != 0 {
						t.Fatalf("%d ns past the command's end it follows %v, before that %v", past, s.Command, last)
					}
					followedAny = followedAny || f != 0
				}
				last = s.Command
			}
		}
		for _, what := range []string{"repeated", "past", "distant", "wall clock", "brief", "just in reach", "good", "overtaken",
			"200", "409 expired", "400 too_distant", "409 older"} {
			if counts[what] == 0 {
				t.Errorf("none of 1000 commands was %q", what)
			}
		}
		if !followedAny {
			t.Error("nothing was followed at all")
		}
		return map[string]any{"commands": sent, "of": counts}
	})
}

// walkOn takes the loop from idle to walking.
func walkOn(t *testing.T, loop *control.Loop) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var s control.Snapshot
	until := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			if ctx.Err() != nil {
				t.Fatalf("never %s", what)
			}
			time.Sleep(time.Millisecond)
			loop.Snapshot(&s)
		}
	}
	for _, step := range []struct {
		what string
		do   func() error
		ok   func() bool
	}{
		{"states", func() error { return loop.Arm(ctx) }, func() bool { return s.Stats.States >= 20 && s.RemotePresent }},
		{"standing", func() error { return loop.SetMode(ctx, control.Stand) }, func() bool { return s.Phase == control.PhaseReady }},
		{"walking", func() error { return loop.SetMode(ctx, control.Policy) }, func() bool { return s.Phase == control.PhaseWalk }},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		until(step.what, step.ok)
	}
}

// dated posts a command under a wall clock's time.
func (r *running) dated(body, date string) *answer {
	req, err := http.NewRequest("POST", "http://"+r.addr+"/api/v1/command", strings.NewReader(body))
	if err != nil {
		r.t.Error(err)
		return &answer{}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Date", date)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Error(err)
		return &answer{}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Error(err)
	}
	return &answer{resp.StatusCode, resp.Header, string(b)}
}

// TestPromise05NoWallClock is the other half: no test may set this machine's clock by an hour, but none of the code between a request
// and a frame reads it. time.Now is allowed where what is made of it is compared with another of its kind, which Go does by the
// monotonic clock; what would turn it into a time of day is not.
func TestPromise05NoWallClock(t *testing.T) {
	harmless := map[string]string{
		"../link/clock.go UnixNano": "receive stamps are the kernel's wall clock; link's TestWallClockStep sets it by an hour between stamp and reading",
		"../link/sport.go Unix":     "a deadline long past ends a read",
	}
	files := 0
	for _, room := range []string{"control", "safety", "estimate", "go1", "wire", "link", "rollout", "httpapi"} {
		names, err := filepath.Glob(filepath.Join("..", room, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files++
			for _, found := range wallClock(t, name, nil) {
				if why := harmless[filepath.ToSlash(found.file)+" "+found.name]; why == "" {
					t.Errorf("%s:%d reads or makes a time of day: %s", found.file, found.line, found.name)
				}
			}
		}
	}
	if files < 50 {
		t.Errorf("only %d files: this test looks at the wrong thing", files)
	}
	// Each way to a wall clock is seen, and what is none is not.
	src := `package x
func f() {
	_ = time.Now().UnixNano(); _ = t.Unix(); _ = time.Now().Round(0); _ = unix.ClockGettime(unix.CLOCK_REALTIME, &ts)
	_ = time.Date(2026, 1, 1); _, _ = time.Parse("", ""); unix.Gettimeofday(nil); _ = t.Format(""); _ = time.Unix(1, 0)
	_ = math.Round(1); _ = time.Now().Add(1).Before(time.Now()); _ = time.Since(t); _ = unix.CLOCK_MONOTONIC
}`
	if got := wallClock(t, "x.go", src); len(got) != 9 {
		t.Errorf("found %d of 9: %v", len(got), got)
	}
}

// timeOfDay is a place in a source file.
type timeOfDay struct {
	file string
	line int
	name string
}

// wallClock finds what reads or makes a time of day.
func wallClock(t *testing.T, name string, src any) (found []timeOfDay) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string][]string{ // by package; "" is any value's method
		"time":    {"Unix", "UnixMilli", "UnixMicro", "Date", "Parse", "ParseInLocation"},
		"unix":    {"Gettimeofday", "Settimeofday", "Time", "CLOCK_REALTIME", "CLOCK_REALTIME_COARSE", "CLOCK_TAI"},
		"syscall": {"Gettimeofday", "Settimeofday", "Time"},
		"":        {"Unix", "UnixNano", "UnixMilli", "UnixMicro", "Round", "Format", "AppendFormat"},
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		from := ""
		if id, ok := sel.X.(*ast.Ident); ok && slices.Contains([]string{"time", "unix", "syscall", "math", "fmt", "strconv", "control"}, id.Name) {
			from = id.Name
		}
		if slices.Contains(of[from], sel.Sel.Name) {
			at := fset.Position(sel.Pos())
			found = append(found, timeOfDay{at.Filename, at.Line, sel.Sel.Name})
		}
		return true
	})
	return found
}
