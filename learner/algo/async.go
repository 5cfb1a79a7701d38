//go:build torch

package algo

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/nets"
)

// backend computes what the policy that collects does.
type backend interface {
	// follow takes over what n, the networks that learn, are now. It is called between
	// iterations, while nothing learns.
	follow(n *nets.Nets) error
	// Forward writes the actor's means (rows, Act) for policyObs (rows, Policy), fp16.
	Forward(policyObs []uint16, rows int, mean []float32) error
}

// same collects with the networks that learn: nothing learns meanwhile.
type same struct{ *nets.Nets }

func (same) follow(*nets.Nets) error { return nil }

// copied collects with a copy of them, which computes the same bit for bit.
type copied struct{ *nets.Nets }

func (c copied) follow(n *nets.Nets) error { return c.Blend(n, 0) }

// learner is the goroutine that learns while the one of Run collects. Only a storage goes to it
// and only an error comes back, so that nothing is used by both at once: from start to wait it has
// the networks that learn, the storage that it was given, Report, order and diverged; Run's
// goroutine has the rest.
type learner struct {
	work chan *storage
	done chan error
	busy *storage // what it learns from; nil: nothing
}

// start begins to learn from s, which nobody else touches until wait.
func (l *learner) start(s *storage) {
	l.busy = s
	l.work <- s
}

// wait ends learning and gives what was learnt from.
func (l *learner) wait() (*storage, error) {
	s, err := l.busy, <-l.done
	l.busy = nil
	return s, err
}

// startLearner starts the goroutine, for one Run; stop waits for what it does and ends it.
func (t *Trainer) startLearner() (stop func() error) {
	l := &learner{work: make(chan *storage), done: make(chan error)}
	t.learner = l
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// One thread of the system for as long as the Run lasts, as in Run.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for s := range l.work {
			l.done <- t.learn(s)
		}
	}()
	return func() (err error) {
		if l.busy != nil {
			// The networks have moved: it counts, though nobody is told.
			var s *storage
			if s, err = l.wait(); err == nil {
				err = t.count(s)
			}
		}
		close(l.work)
		<-ended
		t.learner = nil
		return err
	}
}

// exchange ends the collecting of an iteration that is learnt from while the next is collected.
func (t *Trainer) exchange() error {
	if t.learner.busy != nil {
		learnt, err := t.learner.wait()
		if err != nil {
			return err
		}
		t.pending = t.storage // of which State is to know
		if err := t.conclude(learnt); err != nil {
			return err
		}
		t.storage = learnt
	} else {
		t.pending, t.storage = t.storage, t.spare
	}
	return t.overlap()
}

// overlap begins to learn from what is pending and to collect into t.storage.
func (t *Trainer) overlap() error {
	t.spare, t.pending = t.pending, nil
	if err := t.begin(); err != nil {
		return err
	}
	t.learner.start(t.spare)
	return nil
}

// collecting is the iteration that is collected, from 0.
func (t *Trainer) collecting() int64 {
	if t.learner != nil && t.learner.busy != nil {
		return t.iteration + 1
	}
	return t.iteration
}

// decouple makes the policy at the update's start, pi_start, what ratios and divergences of s are
// taken against, in place of the one that collected, mu, and says in Rho how much of a step is still
// the student's: min(1, pi_start/mu). A teacher's steps stay the teacher's.
func (t *Trainer) decouple(s *storage) error {
	b := s.buf
	a := b.Act
	if err := t.nets.Forward(b.PolicyObs, b.Steps*b.Rows, b.Mean); err != nil {
		return err
	}
	t.nets.Std(s.std)
	for i, mu := range b.LogProb {
		buffer.Decode(t.action, b.Action[i*a:(i+1)*a])
		start := nets.LogProb(t.action, b.Mean[i*a:(i+1)*a], s.std)
		rho := math.Exp(float64(start) - float64(mu))
		if math.IsNaN(rho) {
			return fmt.Errorf("algo: step %d, row %d: its log-probability is %v, was %v: %w", i/b.Rows, i%b.Rows, start, mu, nets.ErrNonFinite)
		}
		if !b.Teacher[i] {
			b.Rho[i] = float32(min(1, rho))
		}
		b.LogProb[i] = start
	}
	return nil
}

// truncate weighs the surrogate of the student's steps by the constant Rho: a constant above 0 goes
// through the clip's maximum, so that it may as well weigh the advantage.
func truncate(b *buffer.Buffer) {
	for i, rho := range b.Rho {
		if !b.Teacher[i] {
			b.Advantage[i] *= rho
		}
	}
}

// since is the time since begin, s.
func since(begin time.Time) float64 { return time.Since(begin).Seconds() }

// errAhead is what a Trainer that does not run ahead says to the state of one that does.
var errAhead = errors.New("algo: state: it holds an iteration collected ahead, which only algo.async learns from")
