package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// typed is a command line as a person types it, refused or not before anything is done: unknown flags, values, flags that do not go
// together, and what a robot that is not on this machine has to be told besides.
func typed(line string) error {
	words, err := shellWords(line)
	if err != nil {
		return err
	}
	loader := cli.NewLoader(defaultConfig)
	root := &cobra.Command{Use: "clawagent", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(newRun(loader), newGuard(loader), newDrive(), newDoctor(loader), loader.Command("clawagent"))
	ran := false
	for _, c := range root.Commands() {
		c.RunE = func(cmd *cobra.Command, _ []string) error {
			ran = true
			if cmd.Flags().Lookup("robot") == nil {
				return nil
			}
			cfg, err := loader.Load()
			if err != nil {
				return err
			}
			is := func(flag string) bool { v, err := cmd.Flags().GetBool(flag); return v && err == nil }
			if is("first-contact") && !cfg.low().Addr().IsLoopback() && !is("arm") && !is("hung") {
				return fmt.Errorf("--first-contact: without --hung it ends where the high-level service is silent")
			}
			return nil
		}
	}
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	root.SetArgs(words)
	err = root.Execute()
	if err == nil && !ran && !slices.Contains(words, "--help") {
		return fmt.Errorf("no command")
	}
	return err
}

// shellWords are those behind the program's name, up to what a shell takes for itself.
func shellWords(line string) (words []string, err error) {
	var word strings.Builder
	quoted, any := false, false
	flush := func() {
		if any {
			words = append(words, word.String())
		}
		word.Reset()
		any = false
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\'':
			quoted = false
		case quoted:
			word.WriteByte(c)
		case c == '\'':
			quoted, any = true, true
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			any = true
		case c == ' ':
			flush()
		case !any && strings.IndexByte("#&|><;", c) >= 0:
			i = len(line)
		default:
			word.WriteByte(c)
			any = true
		}
	}
	flush()
	if quoted {
		return nil, fmt.Errorf("%q: a quote that does not end", line)
	}
	if len(words) == 0 || filepath.Base(words[0]) != "clawagent" {
		return nil, fmt.Errorf("%q does not begin with clawagent", line)
	}
	return words[1:], nil
}

var (
	programIn = regexp.MustCompile("(^|[^@/\\w.-])((?:bin/)?clawagent (?:run|guard|drive|doctor|config)\\b[^\n\"`]*)")
	inTicks   = regexp.MustCompile("`((?:bin/)?clawagent [^`\n]*)`")
	inQuotes  = regexp.MustCompile(`"(clawagent [^"\n]*)"`)
	flagsIn   = regexp.MustCompile(`(?:^|[ (])(--[a-z][a-z-]+)`)
	keysIn    = regexp.MustCompile(`\b((?:control|safety|guard|first_contact)(?:\.[a-z_]+)+[a-z])\b`)
)

// commandsOf finds the command lines in a text: what stands between backquotes or double quotes, and else the program's name with the
// flags and their values behind it. A command's name alone is no command line.
func commandsOf(text string) (lines []string) {
	for _, marked := range []*regexp.Regexp{inTicks, inQuotes} {
		for _, m := range marked.FindAllStringSubmatch(text, -1) {
			if len(strings.Fields(m[1])) > 2 || !programIn.MatchString(m[1]) {
				lines = append(lines, m[1])
			}
		}
		text = marked.ReplaceAllString(text, "")
	}
	for _, m := range programIn.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(m[2])
		n := 2
		for n < len(words) && strings.HasPrefix(words[n], "--") && len(words[n]) > 2 {
			if n++; n < len(words) && takesValue(words[1], words[n-1]) {
				n++
			}
		}
		if n > 2 {
			lines = append(lines, strings.TrimRight(strings.Join(words[:n], " "), ".,;:)"))
		}
	}
	return lines
}

// takesValue says whether a word has to stand behind a command's flag.
func takesValue(command, flag string) bool {
	for _, c := range newRoot().Commands() {
		if f := c.Flags().Lookup(strings.TrimPrefix(flag, "--")); c.Name() == command && f != nil {
			return f.NoOptDefVal == ""
		}
	}
	return false
}

// fenced are the command lines of a Markdown file's blocks of shell, and those between backquotes.
func fenced(t *testing.T, path string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			in = !in
		case in && programIn.MatchString(line) && !strings.Contains(line, "─"):
			lines = append(lines, line[strings.Index(line, "bin/clawagent"):])
		case !in:
			lines = append(lines, commandsOf(line)...)
		}
	}
	return lines
}

// TestCommandsThatArePrinted: each command line that a remedy, a help, DOCTOR.md, FAULTS.md or the README gives a person is one that is
// not refused.
func TestCommandsThatArePrinted(t *testing.T) {
	var said []struct{ where, line string }
	say := func(where string, lines ...string) {
		for _, l := range lines {
			said = append(said, struct{ where, line string }{where, l})
		}
	}
	for _, c := range codes() {
		say(c.Code, commandsOf(c.Remedy)...)
	}
	for i := range firstcontact.Codes {
		say("firstcontact."+firstcontact.Codes[i].Name, commandsOf(firstcontact.Codes[i].Remedy)...)
	}
	for i := range safety.Faults {
		f := &safety.Faults[i]
		say("safety."+f.Name, commandsOf(f.Act+"\n"+f.Means+"\n"+f.Remedy)...)
	}
	root := newRoot()
	for _, c := range root.Commands() {
		say(c.Name()+" --help", commandsOf(c.Long)...)
		examples := 0
		for line := range strings.Lines(c.Example) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "clawagent ") {
				say(c.Name()+" --help, examples", line)
				examples++
			}
		}
		if examples == 0 {
			t.Errorf("%s has no example", c.Name())
		}
	}
	for _, path := range []string{"DOCTOR.md", "../../safety/FAULTS.md", "../../../README.md"} {
		say(path, fenced(t, path)...)
	}
	for where, lines := range literalCommands(t) {
		say(where, lines...)
	}
	for _, s := range said {
		if err := typed(s.line); err != nil {
			t.Errorf("%s: %q would be refused: %v", s.where, s.line, err)
		}
	}
	if len(said) < 30 {
		t.Errorf("only %d command lines: this test looks at the wrong thing", len(said))
	}
}

// programFiles are this package's but its tests, parsed, by name.
func programFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// literalCommands are those in the texts of this package, by file.
func literalCommands(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for name, f := range programFiles(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && field.Tag != nil {
				return false // a key's meaning names a command, and gives none
			}
			if pair, ok := n.(*ast.KeyValueExpr); ok {
				if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Example" {
					return false // looked at line by line
				}
			}
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				out[name] = append(out[name], commandsOf(text)...)
			}
			return true
		})
	}
	return out
}

// TestCommandsForThisRobot: what a refusal tells a person to run is not refused, and works with what of the configuration matters.
func TestCommandsForThisRobot(t *testing.T) {
	for name, change := range map[string]func(c *config){
		"as it is":         func(*config) {},
		"on this machine":  func(c *config) { c.Robot = "udp://127.0.0.1:8007" },
		"other addresses":  func(c *config) { c.High, c.Local = "192.168.123.162:8082", "192.168.123.20:8090" },
		"other CRC":        func(c *config) { c.Control.EncryptCRC = true },
		"without a remote": func(c *config) { c.Safety.WithoutRemote = true },
		"idle sticks": func(c *config) {
			c.Control.RemoteVxMS, c.Control.RemoteVyMS, c.Control.RemoteWzRadS = 0, 0, 0
		},
		"a folder with a blank and a quote": func(c *config) { c.FirstContact.Dir = "/srv/robot dogs/claw's" },
		"another battery":                   func(c *config) { c.FirstContact.Exam.Cells = 8 },
		"a guard of its own":                func(c *config) { c.Guard.Socket = "/run/clawagent/guard.sock" },
	} {
		cfg := defaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lines := []string{contactCommand(&cfg, toFirstContact), contactCommand(&cfg, toFirstContact, "--anew"), contactCommand(&cfg, toHangTest), guardCommand(&cfg)}
		for _, line := range lines {
			if err := typed(line); err != nil {
				t.Errorf("%s: %q would be refused: %v", name, line, err)
			}
		}
		for _, line := range lines[:3] {
			words, err := shellWords(line)
			if err != nil {
				t.Fatal(err)
			}
			loader := cli.NewLoader(defaultConfig)
			cmd := newDoctor(loader)
			if err := cmd.ParseFlags(words[1:]); err != nil {
				t.Fatal(err)
			}
			if got, err := loader.Load(); err != nil || got != cfg {
				t.Errorf("%s: %q is of another configuration: %+v, want %+v (%v)", name, line, got, cfg, err)
			}
		}
	}
}

// TestRefusedCommandsAreFound: the tests above see what is wrong with a command line.
func TestRefusedCommandsAreFound(t *testing.T) {
	for text, says := range map[string]string{
		"run clawagent doctor --hang-test.":                                         "--hung",
		"`clawagent doctor --hang-test --hung --first-contact`":                     "first-contact",
		"(`clawagent doctor --first-contact`)":                                      "without --hung",
		"run clawagent doctor --first-contact --hung --wait 3, then":                "unknown flag: --wait",
		"see \"clawagent guard --halp\"":                                            "unknown flag: --halp",
		"`clawagent doctor --anew --hung`":                                          "--first-contact",
		"`clawagent run --robot 192.168.123.10:8007`":                               "robot",
		"`clawagent doktor`":                                                        "unknown command",
		"`clawagent doctor --set first_contact.exam.cell=6`":                        "first_contact.exam.cell",
		"bin/clawagent guard --status --robot udp://127.0.0.1:8007 --set guard.x=1": "guard.x",
	} {
		lines := commandsOf(text)
		if len(lines) != 1 {
			t.Errorf("%s: %q, want one command line", text, lines)
			continue
		}
		if err := typed(lines[0]); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", text, err, says)
		}
	}
	for _, prose := range []string{"while clawagent run drives", "of clawagent doctor, which", "lock @clawagent/guard/x"} {
		if lines := commandsOf(prose); len(lines) != 0 {
			t.Errorf("%s: %q", prose, lines)
		}
	}
}

// TestRemediesNameWhatThereIs: flags and keys of the configuration in remedies are some.
func TestRemediesNameWhatThereIs(t *testing.T) {
	var keys strings.Builder
	if err := cli.NewLoader(defaultConfig).Explain(&keys); err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	flags, named := map[string]bool{}, 0
	for _, c := range root.Commands() {
		for _, f := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(c.Flags().FlagUsages(), -1) {
			flags[f] = true
		}
	}
	var texts []string
	for _, c := range codes() {
		texts = append(texts, c.Remedy)
	}
	for i := range firstcontact.Codes {
		texts = append(texts, firstcontact.Codes[i].Remedy)
	}
	for i := range safety.Faults {
		texts = append(texts, safety.Faults[i].Remedy, safety.Faults[i].Act)
	}
	for _, text := range texts {
		for _, m := range flagsIn.FindAllStringSubmatch(text, -1) {
			named++
			if !flags[m[1]] {
				t.Errorf("%q: there is no flag %s", text, m[1])
			}
		}
		for _, m := range keysIn.FindAllStringSubmatch(text, -1) {
			named++
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(m[1]) + `\s`).MatchString(keys.String()) {
				t.Errorf("%q: there is no key %s", text, m[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d flags and keys: this test looks at the wrong thing", named)
	}
}
