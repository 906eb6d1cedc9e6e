package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// options say what is measured and where it goes.
type options struct {
	drivers []string
	pick    *regexp.Regexp
	quick   bool
	n       int // samples of each row; 0: as the row says
	scale   int
	binary  string
	engine  string
	jupyter string
	user    string
	json    string
	doc     string
	before  string // a commit, or a report of one; "" compares nothing
	rounds  int
	// trace names what is followed step by step instead of being measured; pictures is where it is drawn.
	trace, pictures string
	growth          string // numbers of sessions; "" measures rows
	total           time.Duration
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	drivers := f.String("drivers", "talaria,jupyter", "servers to measure; the first is compared with the second")
	pick := f.String("run", "", "measure only rows whose id matches this regular expression")
	f.BoolVar(&o.quick, "quick", false, "take few samples and leave out the row with a thousand sessions, to check that everything works")
	f.IntVar(&o.n, "n", 0, "samples of each row (default: as many as the row needs)")
	f.IntVar(&o.scale, "scale", 1000, "number of sessions in the row scale; 0 leaves the row out")
	f.StringVar(&o.binary, "talaria", "bin/talaria", "the program to measure")
	f.StringVar(&o.engine, "engine", "stdlib", "engine that runs Talaria's cells: stdlib, ipython, or auto")
	f.StringVar(&o.jupyter, "jupyter", "", "command of the Jupyter Server (default: the first that is found)")
	f.StringVar(&o.user, "user", "", "run the servers as this user (takes root)")
	f.StringVar(&o.json, "json", "", "write all samples to this file")
	f.StringVar(&o.doc, "doc", "", "write the table into this document, between its marks")
	f.StringVar(&o.before, "before", "", "compare, in turns, with the build of this commit, or of the commit in this file from -json")
	f.StringVar(&o.trace, "trace", "", "follow cell, create, checkpoint, rollback or run, or several of them (cell,create), step by step instead, and print where the time goes")
	f.StringVar(&o.pictures, "pictures", "", "with -trace: draw it into this directory")
	f.StringVar(&o.growth, "growth", "", "measure one server with growing numbers of sessions instead, such as 1,10,100,1000")
	f.IntVar(&o.rounds, "rounds", 3, "with -before: how often to measure each build")
	f.DurationVar(&o.total, "timeout", time.Hour, "end after this long")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is not a flag; see -help", f.Arg(0))
	}
	if o.rounds < 1 {
		return o, fmt.Errorf("-rounds %d: at least 1", o.rounds)
	}
	o.drivers = strings.Split(*drivers, ",")
	o.pick, err = regexp.Compile(*pick)
	return o, err
}

// rows are those that the options choose.
func (o options) rows() []row {
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
		manyLeftOut := r.id == "scale" && (o.scale == 0 || o.quick)
		return !o.pick.MatchString(r.id) || manyLeftOut || r.only != "" && !slices.Contains(o.drivers, strings.ToLower(r.only))
	})
}

func (o options) driver(ctx context.Context, name, temp string, as account) (driver, error) {
	switch name {
	case "talaria":
		return newTalaria(o.binary, o.engine, temp, as)
	case "jupyter":
		return newJupyter(ctx, o.jupyter, temp, as)
	}
	return nil, fmt.Errorf("there is no driver %q; the drivers are talaria and jupyter", name)
}
