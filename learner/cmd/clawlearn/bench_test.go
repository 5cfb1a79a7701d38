package main

import "testing"

func TestBenchGivenFlagsRefuse(t *testing.T) {
	refused(t, "--result x: there is none without --data", "bench", "update", "--result", "x")
	for _, name := range []string{"collect", "train"} {
		refused(t, "unknown flag: --data", "bench", name, "--data", "x")
	}
}
