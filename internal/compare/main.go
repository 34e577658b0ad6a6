// Command compare measures the gateway beside a bare reverse proxy and a bare tool loop, with a load generator that is no
// part of this repository, and says of each row of a table whether it is reached. It is for developers: `make compare`.
//
// All of it runs on loopback of one machine, target after target, round by round. Of times that are measured so, ratios
// alone mean something.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// fewestRounds is what a table is made of that is written into a document.
const fewestRounds = 5

// options are the flags.
type options struct {
	bench   string        // the harness's folder
	rounds  int           // runs of each scenario against each target
	dur     time.Duration // of one run
	only    string        // rows, by id or letter, with commas; "" for all
	update  string        // the document that the table goes into; "" for none
	version string        // of the gateway, as the table names it
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.bench, "bench", "../shared/bench", "folder of the harness")
	fs.IntVar(&o.rounds, "rounds", fewestRounds, "runs of each scenario against each target, of which the median counts")
	fs.DurationVar(&o.dur, "dur", 2*time.Second, "length of one run")
	fs.StringVar(&o.only, "only", "", "rows to measure, by id or by the letter of a scenario, with commas: a,d16,start")
	fs.StringVar(&o.update, "update", "", "document whose table is to be replaced")
	fs.StringVar(&o.version, "version", "dev", "version of the gateway, for the table")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.rounds < 1:
		return o, fmt.Errorf("-rounds %d: want at least 1", o.rounds)
	case o.dur <= 0:
		return o, fmt.Errorf("-dur %s: want more", o.dur)
	case o.update != "" && (o.only != "" || o.rounds < fewestRounds):
		return o, fmt.Errorf("-update is for all rows, of at least %d rounds", fewestRounds)
	}
	return o, nil
}

// run measures and prints the table. Its error says that a row is short, or what kept it from measuring.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	wanted, err := choose(table(), o.only)
	if err != nil {
		return err
	}
	s, err := newSetup(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer s.close()
	found, err := s.measure(ctx, wanted)
	if err != nil {
		return err
	}
	verdicts := judge(wanted, found, o.rounds)
	text := describe(o, found) + "\n\n" + markdown(verdicts)
	fmt.Fprintln(stdout, text)
	if o.update != "" {
		if err := replaceIn(o.update, text); err != nil {
			return err
		}
	}
	var short []string
	for _, v := range verdicts {
		if !v.reached {
			short = append(short, v.id+" "+v.what)
		}
	}
	if len(short) > 0 {
		return fmt.Errorf("%d of %d rows are short:\n  %s", len(short), len(verdicts), strings.Join(short, "\n  "))
	}
	return nil
}
