package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

// errNoBrowser names the Debian package.
var errNoBrowser = errors.New("video: no chromium on this machine: install the Debian package chromium")

// browser is a chromium without a screen that shows one page.
type browser struct {
	ctx    context.Context // chromedp's
	cancel []context.CancelFunc

	mu   sync.Mutex
	said string // the page's last complaint
}

// openBrowser starts one with a window of width x height pixels. It draws with SwiftShader, its own software renderer: the same
// pictures on every machine, with or without a graphics card.
func openBrowser(ctx context.Context, width, height int) (*browser, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, cli.NotAvailable(errNoBrowser)
	}
	b := &browser{}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.WindowSize(width, height),
		chromedp.Flag("use-angle", "swiftshader"),
		chromedp.Flag("enable-unsafe-swiftshader", true),
		chromedp.Flag("force-device-scale-factor", "1"),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("mute-audio", true),
		chromedp.WSURLReadTimeout(startTimeout),
	)
	allocated, cancel := chromedp.NewExecAllocator(ctx, options...)
	b.cancel = append(b.cancel, cancel)
	quiet := func(string, ...any) {}
	tab, cancel := chromedp.NewContext(allocated, chromedp.WithLogf(quiet), chromedp.WithErrorf(quiet),
		chromedp.WithListener(b.listen))
	b.ctx, b.cancel = tab, append(b.cancel, cancel)
	if err := chromedp.Do(tab, chromedp.EmulateViewport(int64(width), int64(height))); err != nil {
		b.close()
		return nil, fmt.Errorf("video: %s does not start: %w", path, err)
	}
	return b, nil
}

// listen keeps what the page complains about.
func (b *browser) listen(event any) {
	var said string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said = e.ExceptionDetails.Text
		if o := e.ExceptionDetails.Exception; o != nil {
			said += " " + o.Description
		}
	case *runtime.EventConsoleAPICalled:
		if string(e.Type) != string(chromedp.ConsoleError) {
			return
		}
		for _, a := range e.Args {
			said += string(a.Value) + a.Description
		}
	default:
		return
	}
	b.mu.Lock()
	b.said = said
	b.mu.Unlock()
}

// explain adds the page's last complaint to an error.
func (b *browser) explain(err error) error {
	if err == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.said == "" {
		return err
	}
	return fmt.Errorf("%w (%.300s)", err, b.said)
}

// open loads a page.
func (b *browser) open(url string) error {
	ctx, cancel := context.WithTimeout(b.ctx, startTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		return fmt.Errorf("video: the page does not load: %w", b.explain(err))
	}
	return nil
}

// screenshot is the page as it looks now, as a PNG.
func (b *browser) screenshot() (png []byte, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, startTimeout)
	defer cancel()
	png, err = chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return nil, fmt.Errorf("video: no screenshot: %w", b.explain(err))
	}
	return png, nil
}

// close ends the browser and waits for it.
func (b *browser) close() {
	if len(b.cancel) == 2 {
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		_ = chromedp.Cancel(ctx) // asks it to end, and waits; what is left is killed below
		cancel()
	}
	for i := len(b.cancel) - 1; i >= 0; i-- {
		b.cancel[i]()
	}
}
