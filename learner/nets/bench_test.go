//go:build torch

package nets

import (
	"runtime"
	"syscall"
	"testing"
)

// recipeNets are the recipe's networks and peerNets rsl-rl's, as of design.md
// section 8.
func recipeNets() Config {
	return Config{Policy: 47, Critic: 63, Act: 12, ActorHidden: []int{128, 128}, CriticHidden: []int{128, 128},
		InitStd: 0.7, MinStd: 0.1, MaxStd: 1.65, Seed: 1, Workers: runtime.NumCPU()}
}

func peerNets() Config {
	c := recipeNets()
	c.ActorHidden, c.CriticHidden = []int{512, 256, 128}, []int{512, 256, 128}
	return c
}

// studentNets are the recipe's with an actor of 15 frames, as learner/algo makes it by default.
func studentNets() Config {
	c := recipeNets()
	c.Policy *= 15
	c.Encoder = &Encoder{Frames: 15, Convs: []Conv{{Channels: 32, Kernel: 5, Stride: 2}, {Channels: 32, Kernel: 3, Stride: 2}}, Latent: 16, Velocity: 47}
	return c
}

// BenchmarkUpdate is one iteration's update: all minibatches of all epochs.
func BenchmarkUpdate(b *testing.B) {
	for _, size := range []struct {
		name                    string
		config                  Config
		samples, epochs, pieces int
	}{
		{"recipe-6144x4x4", recipeNets(), 6144, 4, 4},
		{"student-6144x4x4", studentNets(), 6144, 4, 4},
		{"peer-98304x5x4", peerNets(), 98304, 5, 4},
	} {
		b.Run(size.name, func(b *testing.B) {
			n := newNets(b, size.config)
			batch := randomBatch(b, n, size.samples, 7)
			loss := Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003, MaxGradNorm: 1}
			all := batch.Index
			used := cpuSeconds(b)
			b.ResetTimer()
			for range b.N {
				for range size.epochs {
					for k := range size.pieces {
						batch.Index = all[k*size.samples/size.pieces : (k+1)*size.samples/size.pieces]
						if _, err := n.Minibatch(batch, &loss); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size.samples), "us/sample")
			b.ReportMetric((cpuSeconds(b)-used)/float64(b.N), "cpu-s/op")
		})
	}
}

// cpuSeconds is the processor time this process has used: on a busy machine
// it tells more than the clock.
func cpuSeconds(b *testing.B) float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func BenchmarkForward256(b *testing.B) {
	for name, config := range map[string]Config{"recipe": recipeNets(), "student": studentNets(), "peer": peerNets()} {
		b.Run(name, func(b *testing.B) {
			n := newNets(b, config)
			obs, mean := make([]uint16, 256*config.Policy), make([]float32, 256*config.Act)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if err := n.Forward(obs, 256, mean); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
