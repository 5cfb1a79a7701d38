package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

const (
	driveEvery = 50 * time.Millisecond  // between commands
	driveAhead = 300 * time.Millisecond // each command's life
)

func newDrive() *cobra.Command {
	var (
		addr    string
		seconds float64
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "drive VX VY WZ",
		Short: "Steer a walking robot from the command line",
		Long: `drive sends a velocity to a running agent 20 times a second: VX forward and VY to
the left in m/s, WZ counter-clockwise in rad/s. Each command names its own end, on the robot's
clock, 0.3 s ahead, so the robot comes to a stand soon after this program ends,
however it ends. The robot must be in mode policy.`,
		Example: `  clawagent drive 0.5 0 0 --seconds 5
  clawagent drive --http 127.0.0.1:8080 --seconds 10 -- 0 -0.2 0.5`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v [3]float64
			for i, a := range args {
				x, err := strconv.ParseFloat(a, 32)
				if err != nil || x-x != 0 {
					return cli.Usagef("%s: %q is not a finite number", [3]string{"VX", "VY", "WZ"}[i], a)
				}
				v[i] = x
			}
			if !(seconds > 0 && seconds <= 3600) {
				return cli.Usagef("--seconds: %v, want more than 0 and at most 3600", seconds)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			sent, err := drive20Hz(ctx, "http://"+addr, v, time.Duration(seconds*1e9))
			if asJSON {
				_ = cli.PrintJSON(cmd.OutOrStdout(), map[string]any{"ok": err == nil, "sent": sent})
			}
			return err
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return cli.Usagef("%w (negative numbers stand behind --, as in clawagent drive -- -0.5 0 0)", err)
	})
	f := cmd.Flags()
	f.StringVar(&addr, "http", defaultConfig().HTTP, "address of the agent's HTTP server")
	f.Float64Var(&seconds, "seconds", 1, "how long, s")
	f.BoolVar(&asJSON, "json", false, "print one JSON line at the end")
	return cmd
}

// drive20Hz sends v until d is over or ctx ends; the first refusal ends it, but
// for commands that came too late.
func drive20Hz(ctx context.Context, base string, v [3]float64, d time.Duration) (sent int, err error) {
	client := &http.Client{Timeout: 2 * time.Second}
	// The robot's clock is at least what it said when we have the answer, so a
	// command never lives longer than driveAhead.
	var state struct {
		Clock float64 `json:"clock"`
	}
	if err := call(ctx, client, http.MethodGet, base+"/api/v1/state", nil, &state); err != nil {
		return 0, err
	}
	heard := time.Now()
	tick := time.NewTicker(driveEvery)
	defer tick.Stop()
	for time.Since(heard) < d {
		body := map[string]float64{"vx": v[0], "vy": v[1], "wz": v[2],
			"expires": state.Clock + (time.Since(heard) + driveAhead).Seconds()}
		switch err := call(ctx, client, http.MethodPost, base+"/api/v1/command", body, nil); {
		case ctx.Err() != nil:
			return sent, nil // Ctrl-C: the last command runs out by itself
		case errors.Is(err, errExpired): // a hiccup here; the next one is on time
		case err != nil:
			return sent, err
		default:
			sent++
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return sent, nil
		}
	}
	return sent, nil
}

// errExpired is an agent's answer to a command that came too late.
var errExpired = errors.New("the command came too late")

// call makes one request; an answer that is not 200 becomes the sentence in it.
func call(ctx context.Context, c *http.Client, method, url string, body, out any) error {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		return cli.Usage(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var e struct {
			Error string `json:"error"`
			Code  string `json:"code"`
		}
		switch {
		case json.Unmarshal(b, &e) != nil:
		case e.Code == "expired":
			return errExpired
		case e.Error != "":
			return errors.New(strings.TrimPrefix(e.Error, "control: "))
		}
		return fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}
