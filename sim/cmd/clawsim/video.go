package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/rollout"
)

const (
	videoWidth, videoHeight = 1280, 720
	maxVideoBytes           = 16 << 30
	chunkLimit              = 32 << 20        // bytes of one message of the page that renders
	startTimeout            = 2 * time.Minute // for a browser on a busy machine to load the page
	pictureTimeout          = 2 * time.Minute // for one picture
)

// recorder renders a run through the page in a browser without a screen, in lock-step: the page is sent a frame when it has shown
// the one before, so that a picture is of an exact simulated time however slow the machine is.
//
//	rollout.Run ── Record ─► recorder ── frame ─► page: draws, encodes, muxes
//	                 ▲                              │
//	                 └──── drawn ◄──────────────────┤
//	           FILE.part ◄── pieces of the video ◄──┘   renamed to FILE at the end
type recorder struct {
	token string // whoever has it is the page
	hello []byte
	part  *os.File // nil: no video, only the last frame is looked at
	codec string   // that the page chose; after ready

	frames chan []byte
	heard  chan *request
	gone   chan struct{} // closed when the page's connection has ended: nothing more is heard
	once   sync.Once

	mu   sync.Mutex
	fail error // of a write, or why the page went
}

// newRecorder makes a recorder whose page is told h; part takes the video.
func newRecorder(h *hello, part *os.File) (*recorder, error) {
	b, err := json.Marshal(h, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("video: hello: %w", err)
	}
	return &recorder{token: rand.Text(), hello: b, part: part, frames: make(chan []byte, 1), heard: make(chan *request, 4),
		gone: make(chan struct{})}, nil
}

// serve talks to the page until it goes or ctx ends; its writer has ended too then. A second page is turned away.
func (r *recorder) serve(ctx context.Context, conn *websocket.Conn) {
	first := false
	r.once.Do(func() { first = true })
	if !first {
		_ = conn.Close(websocket.StatusPolicyViolation, "another page renders")
		return
	}
	defer close(r.gone)
	var writer sync.WaitGroup
	defer writer.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn.SetReadLimit(chunkLimit)
	writer.Go(func() { r.write(ctx, cancel, conn) })
	for {
		kind, b, err := conn.Read(ctx)
		if err == nil && kind == websocket.MessageBinary {
			err = r.keep(b)
		} else if err == nil {
			err = r.hear(ctx, b)
		}
		if err != nil {
			r.broke(err)
			return
		}
	}
}

func (r *recorder) write(ctx context.Context, cancel func(), conn *websocket.Conn) {
	defer cancel()
	err := send(ctx, conn, websocket.MessageText, r.hello)
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case b := <-r.frames:
			kind := websocket.MessageBinary
			if b[0] == '{' {
				kind = websocket.MessageText
			}
			err = send(ctx, conn, kind, b)
		}
	}
	r.broke(err)
}

// broke keeps the first error.
func (r *recorder) broke(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail == nil {
		r.fail = err
	}
}

// keep writes a piece of the video.
func (r *recorder) keep(b []byte) error {
	place, data, err := decodeChunk(b)
	switch {
	case err != nil:
		return err
	case r.part == nil:
		return errors.New("video: a piece, but no video was asked for")
	}
	_, err = r.part.WriteAt(data, place)
	return err
}

// hear hands a message on.
func (r *recorder) hear(ctx context.Context, b []byte) error {
	q, err := decodeRequest(b, maxShown)
	if err != nil {
		return err
	}
	if !q.rendering() {
		return fmt.Errorf("video: message %q, which is a person's", q.Do)
	}
	select {
	case r.heard <- q:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait returns the page's next message, which must be want.
func (r *recorder) wait(ctx context.Context, want string, limit time.Duration) (*request, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case q := <-r.heard:
		return q, q.must(want)
	case <-r.gone:
		select {
		case q := <-r.heard: // it may have said why before it went
			return q, q.must(want)
		default:
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return nil, fmt.Errorf("video: the page went away: %w", r.fail)
	case <-timer.C:
		return nil, fmt.Errorf("video: the page did not say %q within %v", want, limit)
	}
}

// must refuses a message of the page that is not the one to come.
func (q *request) must(want string) error {
	switch q.Do {
	case want:
		return nil
	case "failed":
		return fmt.Errorf("video: the page: %s", *q.Error)
	}
	return fmt.Errorf("video: the page said %q, want %q", q.Do, want)
}

// ready waits until the page can take frames.
func (r *recorder) ready(ctx context.Context) error {
	q, err := r.wait(ctx, "ready", startTimeout)
	if err == nil {
		r.codec = *q.Codec
	}
	return err
}

// show has the page show one frame.
func (r *recorder) show(ctx context.Context, frame []byte, step uint32) error {
	select {
	case r.frames <- frame:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.gone:
	}
	q, err := r.wait(ctx, "drawn", pictureTimeout)
	if err == nil && *q.Step != step {
		err = fmt.Errorf("video: the page has drawn step %d, want %d", *q.Step, step)
	}
	return err
}

// finish has the page end the video.
func (r *recorder) finish(ctx context.Context) error {
	select {
	case r.frames <- []byte(`{"finish":true}`):
	case <-ctx.Done():
		return ctx.Err()
	case <-r.gone:
	}
	_, err := r.wait(ctx, "saved", pictureTimeout)
	return err
}

// partFile is a file that gets its name when it is whole.
type partFile struct {
	*os.File
	path string
}

// newPart begins the file that will be path; the folder must exist.
func newPart(path string) (*partFile, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &partFile{f, path}, nil
}

// keep gives it its name.
func (p *partFile) keep() error {
	// As a file that was simply created: CreateTemp's are the owner's alone.
	err := p.Chmod(0o644)
	if err == nil {
		err = p.Sync()
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(p.Name(), p.path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

// drop removes what was not kept.
func (p *partFile) drop() {
	_ = p.Close()
	_ = os.Remove(p.Name()) // after keep there is no such file
}

// film is one run being rendered: browser, page, files.
type film struct {
	stage    *stage
	rec      *recorder
	plan     *recordPlan
	video    *partFile
	shot     string // file; "": none
	browser  *browser
	stopPage func()
}

// filmFormat is what a video file's name asks for.
func filmFormat(path string) (string, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".webm":
		return "webm", nil
	case ".mp4":
		return "mp4", nil
	}
	return "", cli.Usagef("--video %s: want a name that ends in .webm or .mp4", path)
}

// picturesEvery is how many steps there are from one picture to the next at fps pictures a second.
func picturesEvery(fps float64, periodNs int64) (int, error) {
	rate := 1e9 / float64(periodNs)
	every := math.Round(rate / fps)
	if !(every >= 1 && every <= 100 && math.Abs(rate/every-fps) < 1e-6) {
		return 0, cli.Usagef("--fps %v: the policy steps %v times a second, want that or a whole part of it", fps, rate)
	}
	return int(every), nil
}

// newFilm starts a browser with the page in it.
func newFilm(ctx context.Context, st *stage, h *hello, video, shot string) (_ *film, err error) {
	f := &film{stage: st, plan: h.Record, shot: shot}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	var part *os.File
	if video != "" {
		if f.video, err = newPart(video); err != nil {
			return nil, err
		}
		part = f.video.File
	}
	if f.rec, err = newRecorder(h, part); err != nil {
		return nil, err
	}
	l, open, err := listenView("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server, err := newViewServer(l, "", open)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	server.recorder = f.rec
	f.stopPage = server.start(ctx)
	if f.browser, err = openBrowser(ctx, h.Record.Width, h.Record.Height); err != nil {
		return nil, err
	}
	if err = f.browser.open(server.url() + "?record=" + f.rec.token); err != nil {
		return nil, err
	}
	if err = f.rec.ready(ctx); err != nil {
		return nil, f.browser.explain(err)
	}
	return f, nil
}

// show takes one Step of the run and renders it if it is a picture's turn.
func (f *film) show(ctx context.Context, after *rollout.Step, last bool) error {
	f.stage.take(after)
	flags := 0
	if last {
		flags = flagLast
	}
	if (int(f.stage.step)-1)%f.plan.Every != 0 && !last {
		return ctx.Err()
	}
	return f.browser.explain(f.rec.show(ctx, f.stage.frame(flags), f.stage.step))
}

// finish writes the files.
func (f *film) finish(ctx context.Context) error {
	if err := f.rec.finish(ctx); err != nil {
		return f.browser.explain(err)
	}
	if f.shot != "" {
		png, err := f.browser.screenshot()
		if err != nil {
			return err
		}
		part, err := newPart(f.shot)
		if err != nil {
			return err
		}
		defer part.drop()
		if _, err := part.Write(png); err != nil {
			return fmt.Errorf("%s: %w", f.shot, err)
		}
		if err := part.keep(); err != nil {
			return err
		}
	}
	if f.video != nil {
		return f.video.keep()
	}
	return nil
}

// close ends browser and server and removes what is not whole.
func (f *film) close() {
	if f.browser != nil {
		f.browser.close()
	}
	if f.stopPage != nil {
		f.stopPage()
	}
	if f.video != nil {
		f.video.drop()
	}
}
