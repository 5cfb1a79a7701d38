package cli

import (
	"bufio"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Loader builds one program's configuration C, a struct of plain fields and nested structs (sections):
//
//	type Config struct {
//		PeriodUs int   `yaml:"period_us" unit:"us" doc:"time between control frames"`
//		Stand    Stand `yaml:"stand" doc:"standing up"`
//	}
//
// Keys are the yaml tags, dotted through sections. Fields are booleans, numbers, text (string, time.Duration, encoding.TextUnmarshaler)
// and arrays or slices of those. doc says what a key means; its unit is the tag unit or the end of doc.
type Loader[C any] struct {
	defaults func() C
	validate func(*C) error
	keys     schema
	file     string     // --config
	given    []override // --set and key flags, in the order of the command line
}

type override struct{ key, text, flag string }

// NewLoader makes the loader of a configuration that starts as defaults() and that Validate, whose error names field and relation,
// accepts or refuses. It panics on a struct that cannot be a configuration.
func NewLoader[C any, P interface {
	*C
	Validate() error
}](defaults func() C) *Loader[C] {
	return &Loader[C]{
		defaults: defaults,
		validate: func(c *C) error { return P(c).Validate() },
		keys:     newSchema(reflect.TypeFor[C]()),
	}
}

// AddFlags adds --config FILE and --set KEY=VALUE to a command that loads the configuration.
func (l *Loader[C]) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.file, "config", l.file, "read the configuration from `FILE` (see the config command)")
	flags.Var(&setFlag[C]{l}, "set", "set one configuration `KEY=VALUE`, after the file; may be repeated")
}

// AddKeyFlag adds --name as a short form of --set key=..., with the key's meaning and default as its help. An unknown key panics.
func (l *Loader[C]) AddKeyFlag(flags *pflag.FlagSet, name, key string) {
	f, ok := l.keys.byKey[key]
	if !ok || f.section {
		panic("cli: flag --" + name + ": no configuration key " + key)
	}
	c := l.defaults()
	flag := flags.VarPF(&keyFlag[C]{l, f, name, yamlValue(reflect.ValueOf(&c).Elem().FieldByIndex(f.index))}, name, "", f.meaning())
	if f.kind.Kind() == reflect.Bool {
		flag.NoOptDefVal = "true"
	}
}

// Load is defaults, then the file of --config, then the flags, then Validate. Its errors name the key and are Usage errors.
func (l *Loader[C]) Load() (C, error) {
	return l.load(l.file, l.given)
}

// LoadFile is Load of one file alone, as `config --check` does; an empty path is the defaults.
func (l *Loader[C]) LoadFile(path string) (C, error) {
	return l.load(path, nil)
}

func (l *Loader[C]) load(path string, given []override) (C, error) {
	var none C
	c := l.defaults()
	v := reflect.ValueOf(&c).Elem()
	if path != "" {
		data, err := readConfigFile(path)
		if err != nil {
			return none, Usagef("configuration: %w", err)
		}
		if err := l.read(v, data); err != nil {
			return none, Usagef("configuration: %s: %w", path, err)
		}
	}
	for _, o := range given {
		if err := l.keys.setText(v, o.key, o.text); err != nil {
			return none, Usagef("--%s: %w", o.flag, err)
		}
	}
	if err := l.validate(&c); err != nil {
		if path != "" {
			return none, Usagef("configuration: %s: %w", path, err)
		}
		return none, Usagef("configuration: %w", err)
	}
	return c, nil
}

func (l *Loader[C]) read(v reflect.Value, data []byte) error {
	node, err := yamlDocument(data)
	if err != nil || node == nil {
		return err
	}
	return l.keys.setMapping(v, "", node)
}

// setFlag is --set; its errors come from Load, when all keys are judged together.
type setFlag[C any] struct{ l *Loader[C] }

func (f *setFlag[C]) String() string { return "" }
func (f *setFlag[C]) Type() string   { return "KEY=VALUE" }
func (f *setFlag[C]) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("want KEY=VALUE")
	}
	f.l.given = append(f.l.given, override{strings.TrimSpace(key), value, "set"})
	return nil
}

// keyFlag is a flag that sets one key.
type keyFlag[C any] struct {
	l     *Loader[C]
	field field
	name  string
	shown string // default, for help
}

func (f *keyFlag[C]) String() string { return f.shown }
func (f *keyFlag[C]) Type() string {
	if f.field.kind.Kind() == reflect.Bool {
		return "bool" // pflag then shows no placeholder
	}
	return strings.ToUpper(f.field.name())
}
func (f *keyFlag[C]) Set(text string) error {
	f.l.given = append(f.l.given, override{f.field.key, text, f.name})
	return nil
}

// Command is the `config --defaults|--explain|--check FILE` of the program of this name.
func (l *Loader[C]) Command(program string) *cobra.Command {
	var defaults, explain bool
	var check string
	cmd := &cobra.Command{
		Use:   "config --defaults | --explain | --check FILE",
		Short: "Show the configuration's keys and defaults, or check a file",
		Long: "The configuration is built from the defaults, then a YAML file (--config FILE), then flags (--set KEY=VALUE and those that stand for a key),\n" +
			"and is checked as a whole before anything starts. Unknown and repeated keys are refused.",
		Example: program + " config --defaults > config.yaml\n" + program + " config --check config.yaml\n" + program + " config --explain",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			switch {
			case defaults:
				return l.WriteDefaults(out)
			case explain:
				return l.Explain(out)
			case check == "":
				return Usagef("config: --check: want a file name")
			}
			if _, err := l.LoadFile(check); err != nil {
				return err
			}
			_, err := fmt.Fprintf(out, "%s: ok\n", check)
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&defaults, "defaults", false, "print the defaults as a commented YAML file")
	flags.BoolVar(&explain, "explain", false, "print each key, its default, meaning and unit")
	flags.StringVar(&check, "check", "", "load `FILE` strictly and print ok or the first problem")
	cmd.MarkFlagsOneRequired("defaults", "explain", "check")
	cmd.MarkFlagsMutuallyExclusive("defaults", "explain", "check")
	return cmd
}

// WriteDefaults prints the defaults as a YAML file that loads to the defaults, each key with its meaning and unit.
func (l *Loader[C]) WriteDefaults(w io.Writer) error {
	c := l.defaults()
	v := reflect.ValueOf(&c).Elem()
	out := bufio.NewWriter(w)
	for i, f := range l.keys.fields {
		margin := strings.Repeat("  ", f.depth())
		if f.section {
			if i > 0 {
				fmt.Fprintln(out)
			}
			if f.doc != "" {
				fmt.Fprintf(out, "%s# %s\n", margin, f.doc)
			}
			fmt.Fprintf(out, "%s%s:\n", margin, f.name())
			continue
		}
		line := fmt.Sprintf("%s%s: %s", margin, f.name(), yamlValue(v.FieldByIndex(f.index)))
		if m := f.meaning(); m != "" {
			line += "  # " + m
		}
		fmt.Fprintln(out, line)
	}
	return out.Flush()
}

// Explain prints a table: key, default, meaning with its unit.
func (l *Loader[C]) Explain(w io.Writer) error {
	c := l.defaults()
	v := reflect.ValueOf(&c).Elem()
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "KEY\tDEFAULT\tMEANING\n")
	for _, f := range l.keys.fields {
		if f.section {
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.key, yamlValue(v.FieldByIndex(f.index)), f.meaning())
	}
	return table.Flush()
}
