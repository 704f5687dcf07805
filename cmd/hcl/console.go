package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"hclbench/plain"

	"github.com/charmbracelet/log"
	"github.com/google/renameio/v2"
	"github.com/muesli/cancelreader"
	"github.com/muesli/termenv"
	"golang.org/x/term"
)

var version = "dev"

// console is what the verbs share: the three streams, and the person behind them. Nothing
// here asks the terminal for anything: one that does not answer would be waited for, and
// what it answers too late would be taken for what a person types.
type console struct {
	in     *os.File
	stdout io.Writer // the product: plans, tables, JSON
	stderr io.Writer // everything else
	debug  bool

	questions questions
}

func terminal(w any) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// colours reports whether stderr is a terminal that may be coloured.
func (t *console) colours() bool { return coloured(t.stderr) }

// coloured reports whether a stream is a terminal that may be coloured.
func coloured(w io.Writer) bool {
	return terminal(w) && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
}

// width is what COLUMNS says, else that of the terminal that stdout is; otherwise when it is none.
func (t *console) width(otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := t.stdout.(interface{ Fd() uintptr }); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return otherwise
}

// widthOf is the width of what goes to an output: 0, which is no limit, of a file.
func (t *console) widthOf(output string) int {
	if output != "" {
		return 0
	}
	return t.width(0)
}

// red is text where stderr may be coloured.
func (t *console) red(s string) string {
	if !t.colours() {
		return s
	}
	return "\x1b[1;31m" + s + "\x1b[0m"
}

// logger is the program's own voice on stderr. A log that is kept has dates.
func (t *console) logger() *log.Logger {
	format, profile := time.DateTime, termenv.Ascii
	if terminal(t.stderr) {
		format = time.TimeOnly
	}
	if t.colours() {
		profile = termenv.ANSI
	}
	// Of the terminal itself the library would ask its colours.
	l := log.NewWithOptions(struct{ io.Writer }{t.stderr}, log.Options{ReportTimestamp: true, TimeFormat: format})
	l.SetColorProfile(profile)
	if t.debug {
		l.SetLevel(log.DebugLevel)
	}
	return l
}

// connections is the logger that the rooms below get: their steps are debug
// output, because what matters comes as events.
func (t *console) connections() *slog.Logger {
	if !t.debug {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(t.logger())
}

func (t *console) json(v any) error {
	enc := json.NewEncoder(t.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// writeTable prints rows, the first of which may name the columns.
func writeTable(w io.Writer, rows [][]any) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(columns, "\t")
			}
			fmt.Fprint(columns, plain.Line(fmt.Sprint(cell)))
		}
		fmt.Fprintln(columns)
	}
	return columns.Flush()
}

// write writes to a file, whole or not at all, or to stdout when output is "".
func (t *console) write(output string, to func(io.Writer) error) error {
	if output == "" {
		return to(t.stdout)
	}
	if err := writeWhole(output, to); err != nil {
		return err
	}
	fmt.Fprintln(t.stderr, "Written to", output)
	return nil
}

// writeWhole writes a file whole or not at all. One that is there keeps its mode.
func writeWhole(name string, to func(io.Writer) error) error {
	f, err := renameio.NewPendingFile(name, renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer f.Cleanup() // nothing is left to clean once the file has its name
	if err := to(f); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// questions are put to the person at the terminal, one at a time.
type questions struct {
	mu     sync.Mutex
	screen pausable // what is drawn on the terminal meanwhile; nil: nothing is
}

// pausable is a view that is drawn on the terminal. It leaves the terminal to others while it is paused.
type pausable interface{ pause() (restore func()) }

// show says that a view is drawn on the terminal from now on; nil: none is.
func (q *questions) show(s pausable) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.screen = s
}

// undrawn is the terminal without anything that is drawn on it, until the function that it returns is called.
func (q *questions) undrawn() func() {
	q.mu.Lock()
	if q.screen == nil {
		return q.mu.Unlock
	}
	restore := q.screen.pause()
	return func() {
		restore()
		q.mu.Unlock()
	}
}

// ask puts a question to the person at the terminal; only yes is a yes. The end of ctx is an error.
func (t *console) ask(ctx context.Context, question string) (bool, error) {
	defer t.questions.undrawn()()
	if ctx.Err() != nil {
		return false, errNotAsked
	}
	in, err := cancelreader.NewReader(t.in)
	if err != nil {
		return false, fmt.Errorf("ask: %w", err)
	}
	defer in.Close()
	stop := context.AfterFunc(ctx, func() { in.Cancel() })
	defer stop()
	fmt.Fprintf(t.stderr, "\n%s\nOnly 'yes' is accepted: ", question)
	answer := make([]byte, 4096) // a terminal gives one line at a time
	n, err := in.Read(answer)
	if ctx.Err() != nil {
		fmt.Fprintln(t.stderr)
		return false, errNotAsked
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("ask: %w", err)
	}
	return strings.TrimSpace(string(answer[:n])) == "yes", nil
}

// errNotAsked is that of a question that Ctrl-C has answered.
var errNotAsked = &exit{exitInterrupted, errors.New("interrupted; nothing was done")}

const keyEncrypted = "the key %s is encrypted and there is no terminal to ask for its passphrase; " +
	"add it to the SSH agent with: ssh-add %[1]s"

func (t *console) passphrase(ctx context.Context, file string) (string, error) {
	if !terminal(t.in) {
		return "", fmt.Errorf(keyEncrypted, file)
	}
	defer t.questions.undrawn()()
	if ctx.Err() != nil {
		return "", errNotAsked
	}
	fd := int(t.in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("ask for a passphrase: %w", err)
	}
	fmt.Fprintf(t.stderr, "Passphrase of %s: ", file)
	defer fmt.Fprintln(t.stderr)
	type answer struct {
		text []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // after Ctrl-C it waits for a line until the process ends, which is soon
		text, err := term.ReadPassword(fd)
		answered <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", errors.Join(errNotAsked, term.Restore(fd, before))
	case got := <-answered:
		return string(got.text), got.err
	}
}

// errReaderLeft says that nobody reads any more what is printed.
var errReaderLeft = errors.New("the reader of the output has left")

// output is stdout or stderr. When its reader has left, that is an interruption: what
// runs is taken down, as after Ctrl-C.
type output struct {
	*os.File
	left func()
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		o.left()
		err = fmt.Errorf("%w: %w", errReaderLeft, err)
	}
	return n, err
}

// WriteString and ReadFrom are the file's own otherwise.
func (o *output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

func (o *output) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{o}, r)
}
