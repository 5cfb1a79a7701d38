//go:build race

package httpapi

// raceEnabled: the detector shadows memory, so that its size says nothing.
const raceEnabled = true
