package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the Makefile: -ldflags "-X github.com/openclaw-rl/openclaw/agent/cli.version=... -X ....commit=...".
var (
	version string // git describe: "agent-0.1.0-3-g1a2b3c4"
	commit  string // full hash, with "-dirty" when the tree had changes
)

// Build says which program this is. Its JSON is what `--version --json` prints.
type Build struct {
	Name    string `json:"name"`    // of the program
	Version string `json:"version"` // "devel" when neither the Makefile nor the go command knew
	Commit  string `json:"commit"`  // "" when unknown
	Go      string `json:"go"`      // compiler, "go1.26.8"
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// ReadBuild is the running program's Build: what the Makefile linked in, else what the go command recorded.
func ReadBuild(name string) Build {
	b := Build{Name: name, Version: version, Commit: commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	if b.Commit == "" {
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		b.Commit = settings["vcs.revision"]
		if b.Commit != "" && settings["vcs.modified"] == "true" {
			b.Commit += "-dirty"
		}
	}
	return b
}

// String is one line for people: "clawagent 0.1.0 (1a2b3c4) go1.26.8 linux/amd64".
func (b Build) String() string {
	where := ""
	if b.Commit != "" {
		where = " (" + b.Commit + ")"
	}
	return fmt.Sprintf("%s %s%s %s %s/%s", b.Name, b.Version, where, b.Go, b.OS, b.Arch)
}

// addVersion gives root `--version [--json]`, answered before whatever root itself does.
func addVersion(root *cobra.Command) {
	flags := root.Flags()
	flags.Bool("version", false, "print the version and exit")
	if flags.Lookup("json") == nil && root.PersistentFlags().Lookup("json") == nil {
		flags.Bool("json", false, "with --version: print one JSON object")
	}
	args, run := root.Args, root.RunE
	asked := func(cmd *cobra.Command) bool { return cmd == root && cmd.Flags().Lookup("version").Changed }
	root.Args = func(cmd *cobra.Command, given []string) error {
		if asked(cmd) {
			return cobra.NoArgs(cmd, given)
		}
		if args == nil {
			return cobra.ArbitraryArgs(cmd, given)
		}
		return args(cmd, given)
	}
	root.RunE = func(cmd *cobra.Command, given []string) error {
		if !asked(cmd) {
			if run == nil {
				root.Run(cmd, given)
				return nil
			}
			return run(cmd, given)
		}
		b := ReadBuild(root.Name())
		if asJSON, err := cmd.Flags().GetBool("json"); err == nil && asJSON {
			return PrintJSON(cmd.OutOrStdout(), b)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), b)
		return err
	}
}
