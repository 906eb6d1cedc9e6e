package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/client"
)

func batchCommand() *cobra.Command {
	var b batchRun
	cmd := &cobra.Command{
		Use:   "batch FILE|-",
		Short: "Run many cells as a job, and print each result as it arrives",
		Long: `Run many cells as a job, and print each result as it arrives.

Each line of the file is a cell in JSON: {"code": "print(1)"}. With "session" it runs in the session with that id,
otherwise in its own session. "files" are written into the workspace first: {"a.txt": "text"} or
{"a.bin": {"base64": "AAE="}}. Ctrl-C cancels the job; if this program is killed or the server restarts, the job continues.

Exit status: 0 every cell succeeded, 1 at least one did not, 2 wrong usage, 3 no server answers, 124 the deadline cancelled the
job, 130 it was cancelled.`,
		Example: `  talaria batch cells.jsonl
  talaria batch --concurrency 2 --deadline 10m cells.jsonl
  talaria batch --json cells.jsonl | jq .item.execution.text`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := b.request(cmd, args[0])
			if err != nil {
				return err
			}
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			b.client, b.out, b.err = c.Client, cmd.OutOrStdout(), cmd.ErrOrStderr()
			return reached(c.url, b.run(cmd.Context(), req))
		},
	}
	f := cmd.Flags()
	f.Int64Var(&b.concurrency, "concurrency", 0, "how many cells run at a time (default: as many as the server allows)")
	f.Var((*secondsFlag)(&b.deadline), "deadline", "cancel what has not ended after this many seconds, or after a time such as 5m")
	f.BoolVar(&b.json, "json", false, "print the job's events as they arrive, one per line")
	addConnection(cmd)
	return cmd
}

// batchRun is one run of the command.
type batchRun struct {
	client      *client.Client
	concurrency int64
	deadline    float64
	json        bool
	out, err    io.Writer
}

// request reads the items, one JSON object on each line.
func (b *batchRun) request(cmd *cobra.Command, name string) (req api.BatchRequest, err error) {
	if cmd.Flags().Changed("concurrency") {
		req.Concurrency = &b.concurrency
	}
	if cmd.Flags().Changed("deadline") {
		req.DeadlineS = &b.deadline
	}
	if req.Concurrency != nil && b.concurrency <= 0 || req.DeadlineS != nil && b.deadline <= 0 {
		return req, usagef("--concurrency and --deadline must be above 0")
	}
	var text []byte
	if name == "-" {
		text, err = io.ReadAll(cmd.InOrStdin())
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return req, usagef("%v", err)
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var item api.BatchItemRequest
		if err := api.Unmarshal(line, &item); err != nil {
			return req, usagef("%s, line %d: %v", name, number, err)
		}
		req.Items = append(req.Items, item)
	}
	if len(req.Items) == 0 {
		return req, usagef("%s has no cells", name)
	}
	return req, nil
}

// run creates the job and prints its results until it ends. The end of ctx cancels the job.
func (b *batchRun) run(ctx context.Context, req api.BatchRequest) error {
	interrupted := ctx
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	job, err := b.client.CreateBatch(ctx, req)
	if err != nil {
		return err
	}
	defer context.AfterFunc(interrupted, func() {
		untilAnswered(ctx, b.err, "cancellation", func() error { _, err := b.client.CancelBatch(ctx, job.ID); return err })
	})()
	counts := map[api.ExecutionStatus]int{}
	for event, err := range b.client.BatchEvents(ctx, job.ID, 0) {
		if err != nil {
			return fmt.Errorf("follow batch %s: %w", job.ID, err)
		}
		if item := event.Item; item != nil && item.Status.Final() {
			counts[item.Status]++
		}
		if err := b.show(event); err != nil {
			return err
		}
		if event.Status.Final() {
			return b.end(job.ID, event, counts)
		}
	}
	return nil
}

// show prints an event, or the result in it.
func (b *batchRun) show(event api.BatchEvent) error {
	if b.json {
		line, err := api.Marshal(event)
		if err == nil {
			_, err = fmt.Fprintf(b.out, "%s\n", b.clean(string(line)))
		}
		return err
	}
	item := event.Item
	if item == nil || !item.Status.Final() {
		return nil
	}
	head := fmt.Sprintf("[%d] %s", item.Index, item.Status)
	if item.SessionID != "" && !item.SessionDeleted {
		head += " in " + item.SessionID
	}
	if item.Error != nil {
		head += ": " + item.Error.Detail
	}
	text := ""
	if item.Execution != nil {
		text = item.Execution.Text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := fmt.Fprintf(b.out, "%s\n%s", b.clean(head), b.clean(text))
	return err
}

// clean keeps control sequences of a cell from a terminal.
func (b *batchRun) clean(text string) string {
	if !isTerminal(b.out) {
		return text
	}
	if b.json {
		return escapeControls(text, `\u%04x`)
	}
	return new(terminalText).clean(text)
}

// end prints how many items ended how, and returns the exit status.
func (b *batchRun) end(id string, last api.BatchEvent, counts map[api.ExecutionStatus]int) error {
	var words []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %s", counts[status], status))
	}
	fmt.Fprintf(b.err, "talaria: batch %s: %s\n", id, strings.Join(words, ", "))
	switch {
	case last.Status == api.BatchCancelled && last.Reason == api.BatchReasonDeadline:
		return exitError(exitTimeout)
	case last.Status == api.BatchCancelled:
		return exitError(exitInterrupted)
	case len(counts) > 1 || counts[api.StatusOK] == 0:
		return exitError(exitFailed)
	}
	return nil
}
