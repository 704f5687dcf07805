package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/charmbracelet/log"
	"github.com/google/renameio/v2"
	"github.com/muesli/termenv"
	"golang.org/x/term"
)

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

// terminal reports whether w is one.
func terminal(w any) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// moves reports whether stderr is a terminal on which lines can be drawn again.
func (t *console) moves() bool { return terminal(t.stderr) && os.Getenv("TERM") != "dumb" }

// colours reports whether stderr is a terminal that may be coloured.
func (t *console) colours() bool { return t.moves() && os.Getenv("NO_COLOR") == "" }

// width is what COLUMNS says, else that of the terminal that stdout is; otherwise when
// it is none.
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

const red = "31"

// paint colours text where stderr may be coloured.
func (t *console) paint(color, s string) string {
	if !t.colours() {
		return s
	}
	return "\x1b[1;" + color + "m" + s + "\x1b[0m"
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

// json prints a value, as people read it too.
func (t *console) json(v any) error {
	enc := json.NewEncoder(t.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
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

// writeWhole writes a file whole or not at all.
func writeWhole(name string, to func(io.Writer) error) error {
	f, err := renameio.NewPendingFile(name, renameio.WithPermissions(0o644))
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
