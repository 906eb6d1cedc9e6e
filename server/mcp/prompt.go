package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// addPrompt offers a start for the most frequent work.
func addPrompt(server *sdk.Server) {
	server.AddPrompt(&sdk.Prompt{
		Name: "data-analysis", Title: "Analyze a data file",
		Description: "Look at a data file step by step, with charts.",
		Arguments: []*sdk.PromptArgument{
			{Name: "file", Description: "A file of the session's workspace, such as data.csv.", Required: true},
			{Name: "question", Description: "What you want to know."},
		},
	}, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		question := req.Params.Arguments["question"]
		if question == "" {
			question = "What are the main patterns, and what is unusual?"
		}
		text := "Analyze the file " + req.Params.Arguments["file"] + " with execute_code.\n\nQuestion: " + question + `

Work in small steps; variables stay between calls:
1. Load the file with pandas; print its shape, the columns with their types, and how many values are missing.
2. Check what you rely on: units, duplicates, outliers.
3. Compute what answers the question, and print only the figures that matter.
4. Draw one chart for each finding with matplotlib.
5. Sum up: the answer first, then the figures behind it, then what the data cannot show.`
		return &sdk.GetPromptResult{Description: "A step-by-step analysis", Messages: []*sdk.PromptMessage{
			{Role: "user", Content: &sdk.TextContent{Text: text}},
		}}, nil
	})
}
