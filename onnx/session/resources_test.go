package session

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"testing"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	return len(tasks)
}

// Row 28 of ../shared/cases.md: sessions start no pool. Many are opened, so that
// the odd thread of Go's own does not matter; sessions as ONNX Runtime makes them
// by default show that a pool would be seen.
func TestOneThread(t *testing.T) {
	file, err := contract.Load(contracttest.Policy(t, "go1_policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Library(); err != nil {
		t.Fatal(err)
	}
	const sessions = 16
	grown := func(options func(*ort.SessionOptions) error) int {
		before := threads(t)
		for range sessions {
			n, err := newNet(file, 1, 48, 12, options)
			if err != nil {
				t.Fatal(err)
			}
			defer n.close()
			if err := n.session.Run(); err != nil {
				t.Fatal(err)
			}
		}
		return threads(t) - before
	}
	ours := grown(oneThread)
	pools := grown(func(*ort.SessionOptions) error { return nil })
	t.Logf("%d sessions: %d threads more, %d with default options, %d cores", sessions, ours, pools, runtime.NumCPU())
	if ours >= sessions/2 {
		t.Errorf("%d sessions started %d threads", sessions, ours)
	}
	if runtime.NumCPU() > 1 && pools < sessions {
		t.Errorf("the default's pools were not seen (%d threads): this test proves nothing", pools)
	}
}

// rss is the resident memory of this process, MB.
func rss(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / 1e6
}

// ONNX Runtime keeps memory of closed sessions: about 0.2 MB each is reported of
// it. Without its arena it keeps far less; a network's weights are 0.77 MB.
func TestOpenCloseMemory(t *testing.T) {
	file, err := contract.Load(contracttest.Policy(t, "go1_policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	cycle := func(n int) {
		for range n {
			p, err := Open(file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	const cycles = 200
	cycle(20)
	runtime.GC()
	before := rss(t)
	cycle(cycles)
	runtime.GC()
	grown := rss(t) - before
	t.Logf("%d times Open and Close: %+.1f MB", cycles, grown)
	if grown > 0.1*cycles {
		t.Errorf("%d times Open and Close: resident memory grew by %.0f MB", cycles, grown)
	}
}
