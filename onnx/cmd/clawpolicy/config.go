package main

// config is what inspect asks of a policy file.
type config struct {
	Estimator bool `yaml:"estimator" doc:"the Go1 that is asked about has a velocity estimator, as clawagent's has"`
	Replay    bool `yaml:"replay" doc:"load the network and replay its golden pairs; false only reads the file, as for a stranger's"`
}

func defaultConfig() config { return config{Estimator: true, Replay: true} }

// Validate implements the configuration's check: every combination means something.
func (*config) Validate() error { return nil }
