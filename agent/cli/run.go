package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of every program.
const (
	ExitOK           = 0
	ExitFailed       = 1 // the work was tried and did not succeed
	ExitUsage        = 2 // the command line or the configuration is wrong; nothing was tried
	ExitNotAvailable = 3 // something the command needs is not on this machine
)

// coded is an error that has chosen its exit code.
type coded struct {
	err  error
	code int
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

// Usage marks err as the caller's mistake: exit code 2. A nil err stays nil.
func Usage(err error) error { return withCode(err, ExitUsage) }

// Usagef is Usage(fmt.Errorf(format, args...)).
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// NotAvailable marks err as something missing on this machine: exit code 3. A nil err stays nil.
func NotAvailable(err error) error { return withCode(err, ExitNotAvailable) }

func withCode(err error, code int) error {
	if err == nil {
		return nil
	}
	return &coded{err, code}
}

// ExitCode is the code a program ends with for err: the outermost mark, 1 without one, 0 for nil.
func ExitCode(err error) int {
	var c *coded
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &c):
		return c.code
	}
	return ExitFailed
}

// Main runs root on the process's arguments and ends the process with the exit code. It does not return.
func Main(root *cobra.Command) {
	os.Exit(Run(root, os.Args[1:], os.Stdout, os.Stderr))
}

// Run executes root, which it prepares in place (so one tree, one Run), and returns the exit code. Commands write results to
// cmd.OutOrStdout() and progress to cmd.ErrOrStderr(). A panic on the calling goroutine is printed with its stack and is a
// failure (1), since the runtime's own code for it, 2, means usage here. A command with --json that fails and has not printed its
// result gets the line {"ok":false,"error":"...","exit_code":N} on stdout.
func Run(root *cobra.Command, args []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(stderr, "%s: panic: %v\n%s", root.Name(), p, debug.Stack())
			code = ExitFailed
		}
	}()
	prepare(root)
	root.SetArgs(append([]string{}, args...)) // never nil: cobra would take the process's own
	out := &results{w: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		return ExitOK
	}
	var ran *ranError
	if !errors.As(err, &ran) { // cobra refused the command line before the command ran
		err = Usagef("%s%w (see %s --help)", below(cmd), err, cmd.CommandPath())
	}
	said := strings.TrimRight(err.Error(), "\n")
	fmt.Fprintf(stderr, "%s: %s\n", root.Name(), said)
	code = ExitCode(err)
	if asked, ferr := cmd.Flags().GetBool("json"); ferr == nil && asked && !out.told {
		_ = PrintJSON(out, failure{Error: said, ExitCode: code}) // a closed pipe: the code says it too
	}
	return code
}

// below is "run: " for the command "clawagent run" and "" for the root.
func below(cmd *cobra.Command) string {
	_, path, found := strings.Cut(cmd.CommandPath(), " ")
	if !found {
		return ""
	}
	return path + ": "
}

// ranError marks an error that came from a command's own code, in contrast to cobra's refusal of a command line.
type ranError struct{ err error }

func (e *ranError) Error() string { return e.err.Error() }
func (e *ranError) Unwrap() error { return e.err }

type runE = func(*cobra.Command, []string) error

func marked(run runE) runE {
	if run == nil {
		return nil
	}
	return func(cmd *cobra.Command, args []string) error {
		if err := run(cmd, args); err != nil {
			return &ranError{err}
		}
		return nil
	}
}

// prepare gives the tree its version flag, its help, and errors that tell who made them.
func prepare(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.DisableSuggestions = true // unknownCommand suggests, in one line
	root.SetUsageFunc(usage)
	root.SetHelpFunc(help)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd() // now, so that visit sees cobra's own commands too
	root.InitDefaultCompletionCmd()
	visit(root)
	addVersion(root)
}

func visit(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		visit(child)
	}
	if !cmd.Runnable() { // a group: cobra would print help and call a mistyped command a success
		cmd.Args = unknownCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			help(cmd, nil)
			return Usagef("%sname a command", below(cmd))
		}
	}
	cmd.PersistentPreRunE = marked(cmd.PersistentPreRunE)
	cmd.PreRunE = marked(cmd.PreRunE)
	cmd.RunE = marked(cmd.RunE)
	cmd.PostRunE = marked(cmd.PostRunE)
	cmd.PersistentPostRunE = marked(cmd.PersistentPostRunE)
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	return fmt.Errorf("unknown command %q%s", args[0], didYouMean(args[0], names))
}
