package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// help prints what --help shows: what the command is for, then usage.
func help(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	if text != "" {
		fmt.Fprintf(out, "%s\n\n", strings.TrimSpace(text))
	}
	writeUsage(out, cmd)
	if !cmd.HasParent() {
		fmt.Fprint(out, "\nExit codes:\n  0 ok   1 failed   2 usage or configuration   3 not available here\n")
	}
}

// helpCommand is `help [COMMAND]`; cobra's own ends well for a command that does not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return Usagef("help: unknown command %q", strings.Join(args, " "))
			}
			about.SetOut(cmd.OutOrStdout())
			about.InitDefaultHelpFlag()
			help(about, nil)
			return nil
		},
	}
}

func usage(cmd *cobra.Command) error {
	writeUsage(cmd.ErrOrStderr(), cmd)
	return nil
}

// writeUsage prints the usage line, examples, commands and flags, examples first because people copy them.
func writeUsage(out io.Writer, cmd *cobra.Command) {
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(out, "Usage:\n  %s\n", line)
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(out, "\nAlso called: %s\n", strings.Join(cmd.Aliases, ", "))
	}
	if cmd.HasExample() {
		fmt.Fprintf(out, "\nExamples:\n%s\n", indented(cmd.Example))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(out, "\nCommands:\n")
		table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() {
				fmt.Fprintf(table, "  %s\t%s\n", child.Name(), child.Short)
			}
		}
		table.Flush()
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(out, "\nFlags:\n%s", cmd.LocalFlags().FlagUsages())
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(out, "\nFlags of every command:\n%s", cmd.InheritedFlags().FlagUsages())
	}
}

// indented gives each line of an example two spaces, whatever indentation its Go literal had.
func indented(example string) string {
	lines := strings.Split(strings.Trim(example, "\n"), "\n")
	margin := -1
	for _, line := range lines {
		if trimmed := strings.TrimLeft(line, " \t"); trimmed != "" && (margin < 0 || len(line)-len(trimmed) < margin) {
			margin = len(line) - len(trimmed)
		}
	}
	for i, line := range lines {
		line = strings.TrimRight(line, " \t")
		if len(line) > 0 {
			line = "  " + line[min(max(margin, 0), len(line)):]
		}
		lines[i] = line
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
