// Package cli is the frame that every OpenClaw program shares: exit codes, version, configuration, the JSON line for scripts,
// help, and the two-step stop on signals. A program is a cobra tree handed to Main:
//
//	func main() { cli.Main(newRoot()) }
//
//	            arguments
//	                |                       exit code
//	Main -> cobra -> RunE -> nil            0  OK
//	          |        |---> error          1  Failed
//	          |        |---> Usage(error)   2  bad flag value, bad configuration
//	          |        '---> NotAvailable() 3  what it needs is not here (no policy, no device)
//	          '------------> error          2  unknown command or flag, missing argument
//
// An error is printed once, on standard error, as "program: sentence". Standard output carries results only, and with --json a
// command's last line is one JSON object: its result (PrintJSON) or, where it failed without one, {"ok":false,"error":...,"exit_code":N}.
//
// A program's configuration is one struct built by defaults, then a YAML file, then flags, then checked once by its Validate:
//
//	DefaultConfig() -> --config FILE -> --set key=value, --robot ... -> Validate() -> Config
//
// Loader does that, and its Command is `config --defaults|--explain|--check FILE`. Ahead puts a program with a real-time thread
// before ordinary ones, if the system lets it. Only packages under a cmd folder import cli;
// nothing here runs in a control loop.
package cli
