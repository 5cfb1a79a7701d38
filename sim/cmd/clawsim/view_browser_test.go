package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// testBrowser starts chromium; where there is none the test skips and names the package, or fails if every test is wanted.
func testBrowser(t *testing.T, width, height int) *browser {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	b, err := openBrowser(ctx, width, height)
	if cli.ExitCode(err) == cli.ExitNotAvailable {
		if os.Getenv("OPENCLAW_ALL") == "1" {
			t.Fatalf("OPENCLAW_ALL=1 wants every test: %v: run make test-deps", err)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

// eval is the value of a JavaScript expression in the page.
func eval[T any](t *testing.T, b *browser, js string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", js, b.explain(err))
	}
	return v
}

// until waits for a JavaScript expression to hold in the page.
func until(t *testing.T, b *browser, js string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if eval[bool](t, b, js) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never: %s; the page shows %s", js, eval[string](t, b, "JSON.stringify(claw().frame)"))
		}
	}
}

// drawn waits until the page has drawn what it knows; it draws at the screen's rate, later than it hears.
func drawn(t *testing.T, b *browser) {
	t.Helper()
	eval[bool](t, b, "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
}

// do carries out what a person would do.
func do(t *testing.T, b *browser, what chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, what); err != nil {
		t.Fatal(b.explain(err))
	}
}

// picture decodes a PNG.
func picture(t *testing.T, b []byte) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// colours counts the colours in a part of a picture.
func colours(img image.Image, part image.Rectangle) int {
	seen := map[[3]uint32]bool{}
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[[3]uint32{r, g, b}] = true
		}
	}
	return len(seen)
}

// standingEnv is robots that hold the home pose.
func standingEnv(t *testing.T, rows int) *mujoco.Env {
	t.Helper()
	cfg := mujoco.DefaultEnvConfig(task.DefaultSpec())
	cfg.Rows = rows
	env, err := mujoco.NewEnv(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	return env
}

// serveStanding lets robots stand, served to browsers.
func serveStanding(t *testing.T, rows int) (url string, h *hub) {
	t.Helper()
	env := standingEnv(t, rows)
	spec := env.Spec()
	f := playFlags{policy: "zero", physics: "full", rows: rows}
	h, err := newHub(f.hello(&spec))
	if err != nil {
		t.Fatal(err)
	}
	l, open, err := listenView("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := newViewServer(l, "127.0.0.1:0", open)
	if err != nil {
		t.Fatal(err)
	}
	server.hub = h
	ctx, cancel := context.WithCancel(context.Background())
	stop := server.start(ctx)
	st := newStage(env, &spec, h)
	ran := make(chan error, 1)
	go func() {
		ran <- rollout.Run(ctx, []rollout.Env{env}, zeroPolicy{}, rollout.SinkFunc(
			func(_ int, _ *rollout.Step, _ *rollout.Decision, after *rollout.Step) error {
				return st.show(ctx, after, false)
			}))
	}()
	t.Cleanup(func() {
		cancel()
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return server.url(), h
}

// A person looks at three robots, stops time, pushes, drives and chooses; the robots follow.
func TestViewInABrowser(t *testing.T) {
	b := testBrowser(t, 800, 450)
	url, h := serveStanding(t, 3)
	if err := b.open(url); err != nil {
		t.Fatal(err)
	}
	until(t, b, "claw().frame !== null && claw().frame.step > 10")

	do(t, b, chromedp.Click("#pause"))
	until(t, b, "claw().frame.paused && document.getElementById('pause').textContent === 'Resume'")
	drawn(t, b)
	t.Run("draws", func(t *testing.T) {
		img, err := b.screenshot()
		if err != nil {
			t.Fatal(err)
		}
		if n := colours(picture(t, img), image.Rect(0, 80, 470, 400)); n < 300 {
			t.Errorf("the view has %d colours: nothing is drawn", n)
		}
		if n := colours(picture(t, img), image.Rect(480, 0, 800, 450)); n < 50 {
			t.Errorf("the panel has %d colours: nothing is written", n)
		}
	})
	t.Run("feet where kinematics says", func(t *testing.T) {
		got := eval[struct {
			Pos, Quat, Q [][]float64
			FootAt       []float64
		}](t, b, `(() => { const c = claw(), of = k => c.frame.rows.map(r => [...r[k]]);
			return {Pos: of("pos"), Quat: of("quat"), Q: of("q"), FootAt: c.footAt} })()`)
		for row := range 3 {
			var q [go1.Joints]float64
			copy(q[:], got.Q[row])
			for leg := range go1.Legs {
				p := go1.Foot(leg, &q)
				want := turned(got.Quat[row], p)
				for i := range 3 {
					want[i] += got.Pos[row][i]
					if at := got.FootAt[12*row+3*leg+i]; math.Abs(at-want[i]) > 1e-4 {
						t.Errorf("row %d, foot %s: drawn at %v along axis %d, want %v", row, go1.LegNames[leg], at, i, want[i])
					}
				}
			}
		}
	})
	t.Run("step", func(t *testing.T) {
		before := eval[int](t, b, "claw().frame.step")
		do(t, b, chromedp.KeyEvent("."))
		until(t, b, fmt.Sprintf("claw().frame.step === %d && claw().frame.paused", before+1))
	})
	t.Run("push", func(t *testing.T) {
		do(t, b, chromedp.Click("#rows button:nth-child(2)"))
		until(t, b, "claw().selected === 1")
		do(t, b, chromedp.Click(`#push button[title="push forward"]`))
		do(t, b, chromedp.Click("#step"))
		until(t, b, "claw().frame.rows[1].measured[0] > 0.2")
		if v := eval[float64](t, b, "claw().frame.rows[0].measured[0]"); math.Abs(v) > 0.1 {
			t.Errorf("row 0 moves at %v m/s, row 1 was pushed", v)
		}
	})
	t.Run("drive by keys", func(t *testing.T) {
		do(t, b, chromedp.Click("#pause"))
		until(t, b, "!claw().frame.paused")
		eval[bool](t, b, `dispatchEvent(new KeyboardEvent("keydown", {code: "KeyW", key: "w"}))`)
		until(t, b, "Math.abs(claw().frame.rows[1].command[0] - 0.8) < 1e-6 && claw().frame.rows[1].steered && !claw().frame.rows[0].steered")
		eval[bool](t, b, `dispatchEvent(new KeyboardEvent("keyup", {code: "KeyW", key: "w"}))`)
		until(t, b, "claw().frame.rows[1].command[0] === 0")
		do(t, b, chromedp.Click("#script"))
		until(t, b, "!claw().frame.rows[1].steered")
	})
	t.Run("drive all by slider", func(t *testing.T) {
		do(t, b, chromedp.Click("#everyone"))
		eval[bool](t, b, `(s => { s.value = "-0.5"; return s.dispatchEvent(new Event("input")) })(document.getElementById("slide-wz"))`)
		until(t, b, "claw().frame.rows.every(r => r.steered && r.command[2] === -0.5)")
	})
	t.Run("choose by click", func(t *testing.T) {
		// While time goes on the camera glides: what was looked up may be elsewhere when the click comes.
		eventually(t, "row 2 is chosen", func() bool {
			at := eval[[3][2]float64](t, b, "claw().screen")
			do(t, b, chromedp.MouseClickXY(at[2][0], at[2][1]))
			return eval[int](t, b, "claw().selected") == 2
		})
	})
	t.Run("slower", func(t *testing.T) {
		do(t, b, chromedp.Click(`#speed [data-speed="0.25"]`))
		until(t, b, "claw().frame.speed === 0.25")
	})
	do(t, b, chromedp.Click("#pause"))
	until(t, b, "claw().frame.paused")
	for _, size := range [][2]int64{{1280, 720}, {390, 844}} {
		t.Run(fmt.Sprintf("fits %dx%d", size[0], size[1]), func(t *testing.T) {
			do(t, b, chromedp.EmulateViewport(size[0], size[1]))
			until(t, b, fmt.Sprintf("innerWidth === %d", size[0]))
			const wide = `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 ||
				e.scrollWidth > e.clientWidth + 1 && !["INPUT", "SPAN", "svg"].includes(e.tagName)).map(e => e.tagName + "#" + e.id + "." + e.className)`
			eventually(t, "nothing is wider than the page", func() bool { // once the page has heard of its new size
				parts := eval[[]string](t, b, wide)
				if len(parts) > 0 {
					t.Logf("wider than the page: %v", parts)
				}
				return len(parts) == 0
			})
			drawn(t, b)
			if dir := os.Getenv("OPENCLAW_SHOTS"); dir != "" {
				img, err := b.screenshot()
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("view-%d.png", size[0])), img, 0o644)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	if n := h.refused.Load(); n != 0 {
		t.Errorf("%d messages of the page were refused", n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.said != "" {
		t.Errorf("the page complains: %s", b.said)
	}
}

// turned rotates p by an attitude w x y z.
func turned(quat []float64, p [3]float64) [3]float64 {
	w, u := quat[0], [3]float64{quat[1], quat[2], quat[3]}
	cross := func(a, b [3]float64) [3]float64 {
		return [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
	}
	c := cross(u, p)
	d := cross(u, c)
	for i := range p {
		p[i] += 2 * (w*c[i] + d[i])
	}
	return p
}

// A short run becomes a video that a browser plays, and a screenshot.
func TestVideoIsAVideo(t *testing.T) {
	b := testBrowser(t, 640, 360)
	dir := t.TempDir()
	video, shot := filepath.Join(dir, "stand.webm"), filepath.Join(dir, "stand.png")
	m := playJSON(t, "--policy", "zero", "--rows", "2", "--seconds", "0.2", "--video", video, "--shot", shot)
	if m["video"] != video || m["video_codec"] != "vp9" || m["shot"] != shot || m["falls"] != 0.0 {
		t.Errorf("play says %v", m)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v: want the two files alone", entries, err)
	}
	file, err := os.ReadFile(video)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(file, []byte("V_VP9")) {
		t.Error("no VP9 track")
	}
	still, err := os.ReadFile(shot)
	if err != nil {
		t.Fatal(err)
	}
	if img := picture(t, still); img.Bounds().Dx() != videoWidth || img.Bounds().Dy() != videoHeight || colours(img, img.Bounds()) < 500 {
		t.Errorf("the screenshot is %v with %d colours", img.Bounds(), colours(img, img.Bounds()))
	}
	files := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer files.Close()
	if err := b.open(files.URL); err != nil {
		t.Fatal(err)
	}
	got := eval[struct {
		Duration      float64
		Width, Height int
		Colours       int
		Error         string
	}](t, b, `new Promise(done => {
		const v = document.createElement("video");
		v.muted = true;
		v.onerror = () => done({Error: v.error.message});
		v.onloadedmetadata = () => v.currentTime = v.duration - 0.01;
		const end = performance.now() + 120e3;
		const look = () => { // a seek may have ended before its picture is there to be drawn
			const c = new OffscreenCanvas(v.videoWidth, v.videoHeight).getContext("2d");
			c.drawImage(v, 0, 0);
			const seen = new Set(new Uint32Array(c.getImageData(0, 100, v.videoWidth, 500).data.buffer));
			if (seen.size === 1 && performance.now() < end) {
				setTimeout(look, 50);
				return;
			}
			done({Duration: v.duration, Width: v.videoWidth, Height: v.videoHeight, Colours: seen.size, Error: ""});
		};
		v.onseeked = look;
		v.src = "stand.webm";
	})`)
	if got.Error != "" || math.Abs(got.Duration-0.2) > 0.001 || got.Width != videoWidth || got.Height != videoHeight || got.Colours < 500 {
		t.Errorf("the browser plays %+v, want 0.2 s of %dx%d", got, videoWidth, videoHeight)
	}
}

// Without a browser nothing is left behind, and the package is named.
func TestVideoWithoutABrowser(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	code, out, errs := play("--policy", "zero", "--rows", "1", "--seconds", "0.1", "--video", filepath.Join(dir, "a.webm"))
	if code != cli.ExitNotAvailable || out != "" || !bytes.Contains([]byte(errs), []byte("Debian package chromium")) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, out, errs)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
