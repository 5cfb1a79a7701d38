package guard

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// patient is a clock that stands still: a guard waits for the window for as long as this machine keeps the agent's thread waiting.
type patient struct{}

func (patient) Now() int64       { return 0 }
func (patient) SleepUntil(int64) { runtime.Gosched() }

// mute is a robot that takes nothing and says nothing.
type mute struct{}

func (mute) Receive(*wire.LowState, int64) (int64, bool) { return 0, false }
func (mute) Send([]byte) error                           { return errors.New("mute") }
func (mute) Close() error                                { return nil }

// racer is an agent's loop that sends as fast as it can, and its guard, over two real shared pages, each mapped twice as in two processes.
type racer struct {
	w     *Watch
	g     *Guard
	s     *session
	epoch atomic.Uint64 // that the agent begins
	sent  atomic.Uint64 // torque frames
	kills atomic.Uint64 // which a guard that waits has no reason for
	early atomic.Uint64 // latches that were seen and not yet counted as trips
	end   atomic.Bool
}

func newRacer(t *testing.T) *racer {
	t.Helper()
	var pages [4]*mapping
	for i := range 2 {
		m, file, err := newPage("race")
		if err != nil {
			t.Fatal(err)
		}
		other, err := openPage(int(file.Fd()), i == 0)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		pages[2*i], pages[2*i+1] = m, other
	}
	r := &racer{}
	r.g = &Guard{clock: patient{}, page: pages[2].guard(), keep: pages[2]}
	r.g.cfg.Kill = func(int) error { r.kills.Add(1); return nil }
	r.s = &session{number: 1, page: pages[0].agent(), keep: pages[0], udp: mute{}, staleNs: -1 << 62, pidfd: -1}
	r.g.current.Store(r.s)
	r.g.seen.Store(r.s)
	r.g.page.session.Store(1)
	r.w = &Watch{agent: pages[1].agent(), guard: pages[3].guard(), session: 1, keep: [2]*mapping{pages[1], pages[3]}}
	return r
}

// agent is the loop: one epoch after the other, each until its latch.
func (r *racer) agent(hold func(n uint64)) {
	for n := uint64(1); !r.end.Load(); n++ {
		r.w.Begin()
		r.epoch.Store(r.w.epoch)
		for !r.end.Load() {
			r.w.Open()
			if r.w.Look() != Free {
				if r.w.Trips() < n {
					r.early.Add(1)
				}
				r.w.Shut()
				runtime.Gosched()
				break
			}
			hold(n)
			sent := r.sent.Add(1)
			if r.w.Shut(); sent%11 == 0 {
				runtime.Gosched() // outside: else a guard on the same core never finds it closed
			}
		}
	}
}

// TestLatchRace: whatever the two do at once, no torque frame is sent behind a latch, and nobody is killed who was not stopped. Once latch
// has returned, the agent is out of its window, and what it looks at next is the latch; so the count of frames stands still until a new epoch.
func TestLatchRace(t *testing.T) {
	const pairs, rounds = 3, 10000
	type outcome struct {
		latches, late int
		kills, early  uint64
	}
	done := make(chan outcome, pairs)
	for p := range pairs {
		go func() {
			var o outcome
			r := newRacer(t)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				frames := 0
				r.agent(func(uint64) {
					if frames++; frames%(5+2*p) == 0 {
						runtime.Gosched() // inside the window; on one core this is where the guard gets its turn
					}
				})
			}()
			for last := uint64(0); o.latches < rounds; {
				epoch := r.epoch.Load()
				if epoch == last {
					runtime.Gosched()
					continue
				}
				last = epoch
				for range o.latches * 7919 % 300 { // some frames leave first
					_ = r.s.page.window.Load()
				}
				r.g.latch(r.s, epoch)
				o.latches++
				before := r.sent.Load()
				for range 50 {
					// A frame that was counted while the epoch is still this one was sent in it.
					if n := r.sent.Load(); n != before && r.epoch.Load() == epoch {
						o.late++
					}
				}
			}
			r.end.Store(true)
			<-ended
			o.kills, o.early = r.kills.Load(), r.early.Load()
			done <- o
		}()
	}
	for range pairs {
		o := <-done
		if o.late != 0 || o.kills != 0 || o.early != 0 {
			t.Errorf("%d looks saw torque frames behind %d latches; %d agents killed who were not stopped; %d latches seen before they counted",
				o.late, o.latches, o.kills, o.early)
		}
	}
}

// TestEmptyPage: a guard's page of zeros permits nothing, whatever the session and the epoch.
func TestEmptyPage(t *testing.T) {
	for _, session := range []uint64{0, 1} {
		w := &Watch{agent: &agentPage{}, guard: &guardPage{}, session: session}
		for range 2 {
			if look := w.Look(); look != Nobody {
				t.Errorf("session %d, epoch %x: %v", session, w.epoch, look)
			}
			w.Begin()
		}
	}
	if Look(0) == Free {
		t.Error("a look that was not taken is a permission")
	}
}

// TestRunsFirst: the kernel is asked about the thread. What it refuses this test to be cannot be tried.
func TestRunsFirst(t *testing.T) {
	for _, c := range []struct {
		name     string
		policy   uintptr
		priority int32
		want     bool
	}{
		{"ordinary", unix.SCHED_NORMAL, 0, false}, {"batch", unix.SCHED_BATCH, 0, false}, {"idle", unix.SCHED_IDLE, 0, false},
		{"fifo", unix.SCHED_FIFO, 1, true}, {"round robin", unix.SCHED_RR, 1, true}, {"fifo, not inherited", unix.SCHED_FIFO | unix.SCHED_RESET_ON_FORK, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tid, end := make(chan int), make(chan struct{})
			defer close(end)
			go func() {
				runtime.LockOSThread() // it ends with this goroutine
				if _, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, c.policy, uintptr(unsafe.Pointer(&c.priority))); errno != 0 {
					close(tid)
					return
				}
				tid <- unix.Gettid()
				<-end
			}()
			thread, ok := <-tid
			if !ok {
				t.Skip("refused")
			}
			if got := runsFirst(thread); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	if runsFirst(1 << 30) {
		t.Error("a thread that there is not")
	}
}

// TestPagesAreOneSided: the agent cannot write what the guard says, nobody can change a page's size, and what is no page is refused.
func TestPagesAreOneSided(t *testing.T) {
	_, file, err := newPage("test")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	readable, err := readOnly(file)
	if err != nil {
		t.Fatal(err)
	}
	defer readable.Close()
	if _, err := openPage(int(readable.Fd()), true); err == nil {
		t.Error("a page for reading is mapped for writing")
	}
	if err := file.Truncate(0); err == nil {
		t.Error("a page shrinks")
	}
	if err := file.Truncate(2 * pageBytes); err == nil {
		t.Error("a page grows")
	}
	plain, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := openPage(int(plain.Fd()), false); err == nil || !strings.Contains(err.Error(), "0 bytes") {
		t.Errorf("an empty file: %v", err)
	}
	if err := plain.Truncate(pageBytes); err != nil {
		t.Fatal(err)
	}
	if _, err := openPage(int(plain.Fd()), false); err == nil || !strings.Contains(err.Error(), "not sealed") {
		t.Errorf("a file that can be cut off: %v", err)
	}
}
