package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/session"
)

const (
	maxInline     = 4        // pictures in a result; the rest are links
	maxLinks      = 20       // files in a result
	maxFullImage  = 5 << 20  // of images: full
	maxImageBytes = 16 << 20 // of a picture that is scaled
)

var none api.ExecuteCodeResult

// What a call shows of pictures.
const (
	imagesThumb = "thumb"
	imagesFull  = "full"
	imagesNone  = "none"
)

// view is how a call wants to see an execution.
type view struct {
	session string // as the call named it
	wait    time.Duration
	images  string
}

func newView(session string, waitS *float64, images string) (view, error) {
	v := view{session, defaultWait, images}
	if waitS != nil {
		if !(*waitS >= 0 && *waitS <= maxWait.Seconds()) {
			return v, api.Errorf(api.CodeInvalidRequest, "wait_s must be between 0 and %.0f", maxWait.Seconds())
		}
		v.wait = time.Duration(*waitS * float64(time.Second))
	}
	switch images {
	case "":
		v.images = imagesThumb
	case imagesThumb, imagesFull, imagesNone:
	default:
		return v, api.Errorf(api.CodeInvalidRequest, "images must be thumb, full or none, not %.40q", images)
	}
	return v, nil
}

// said is a result of one text.
func said(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// failure is the result of a call that was refused.
func failure(err *api.Error) *sdk.CallToolResult {
	r := said(fmt.Sprintf("%s: %s", err.Code, err.Detail))
	r.IsError = true
	return r
}

// show makes a result of an execution: its text, pictures that a client can take, and links to everything else.
func (v view) show(ctx context.Context, sess *session.Session, e api.Execution) (*sdk.CallToolResult, api.ExecuteCodeResult) {
	shown := outcome(e)
	text := shown.Output
	if shown.Kernel.StateReset {
		text = "[the interpreter was restarted before this run; earlier variables are gone]\n" + text
	}
	if strings.TrimSpace(text) == "" {
		text = "(no output)"
	}
	r := said(text)
	add := func(c sdk.Content) { r.Content = append(r.Content, c) }
	execution := sessionURI(e.SessionID) + "/executions/" + url.PathEscape(e.ID)
	if e.TruncatedBytes > 0 || e.OutputsOmitted || strings.Contains(e.Text, api.TextCutMark) {
		add(&sdk.ResourceLink{URI: execution + "/output", Name: "whole output", MIMEType: "text/plain",
			Description: "everything that the code printed; read it as a resource"})
	}
	if !e.Status.Final() {
		return r, shown // a client that waits on would get the pictures each time
	}
	inline := 0
	for i, data := range images(e.Outputs) {
		if i == maxLinks {
			break
		}
		if inline < maxInline && v.inline(data, add) {
			inline++
		}
		n := int64(len(data))
		add(&sdk.ResourceLink{URI: fmt.Sprintf("%s/images/%d", execution, i), Name: fmt.Sprintf("picture %d", i+1), MIMEType: mediaOf(data), Size: &n,
			Description: "the picture as it was drawn"})
	}
	v.showFiles(ctx, sess, e, maxInline-inline, add)
	return r, shown
}

// showFiles adds links to the files that an execution created or changed, and up to that many of them as pictures.
func (v view) showFiles(ctx context.Context, sess *session.Session, e api.Execution, inline int, add func(sdk.Content)) {
	links := 0
	for _, a := range e.Artifacts {
		if a.SHA256 == "" || a.Omitted {
			continue
		}
		if links++; links > maxLinks {
			add(&sdk.TextContent{Text: fmt.Sprintf("[%d files in total; list_files shows them]", len(e.Artifacts))})
			return
		}
		if inline > 0 && v.images != imagesNone && isPicture(a.MediaType) && a.Size != nil && *a.Size <= maxImageBytes {
			if data, err := readArtifact(ctx, sess, a.SHA256, maxImageBytes); err == nil && v.inline(data, add) {
				inline--
			}
		}
		add(&sdk.ResourceLink{URI: sessionURI(e.SessionID) + "/artifacts/" + a.SHA256, Name: a.Path, MIMEType: a.MediaType, Size: a.Size,
			Description: string(a.Change) + " by this run"})
	}
}

// inline adds a picture, if the view shows pictures and this one can be shown.
func (v view) inline(data []byte, add func(sdk.Content)) bool {
	if v.images == imagesNone {
		return false
	}
	if v.images == imagesFull && len(data) <= maxFullImage {
		add(&sdk.ImageContent{Data: data, MIMEType: mediaOf(data)})
		return true
	}
	small, media, err := Thumbnail(data)
	if err != nil {
		return false // its link is there
	}
	add(&sdk.ImageContent{Data: small, MIMEType: media})
	return true
}

// outcome is an execution for a model, also one that goes on.
func outcome(e api.Execution) api.ExecuteCodeResult {
	if e.Status.Final() {
		return api.ExecuteCode(e)
	}
	r := api.ExecuteCode(api.Execution{
		ID: e.ID, SessionID: e.SessionID, ExecutionCount: e.ExecutionCount, Status: api.StatusOK, Generation: e.Generation, ToolCalls: e.ToolCalls,
	})
	r.Status = api.ExecuteCodeStatus(e.Status)
	r.Output = strings.TrimRight(e.Text, "\n")
	if r.Output != "" {
		r.Output += "\n"
	}
	r.Output += fmt.Sprintf("[%s; call get_execution with execution_id %q to wait for it, or interrupt to stop it]", e.Status, e.ID)
	return r
}

// images are the pictures that an execution showed, decoded, in their order.
func images(outputs []api.Output) (list [][]byte) {
	for _, o := range outputs {
		for _, media := range []string{"image/png", "image/jpeg"} {
			raw, ok := o.Data[media]
			if !ok {
				continue
			}
			var text string
			if json.Unmarshal(raw, &text) != nil {
				break
			}
			if data, err := base64.StdEncoding.DecodeString(strings.NewReplacer("\n", "", "\r", "").Replace(text)); err == nil {
				list = append(list, data)
			}
			break
		}
	}
	return list
}

func isPicture(media string) bool { return media == "image/png" || media == "image/jpeg" }

// mediaOf tells PNG from JPEG.
func mediaOf(data []byte) string {
	if strings.HasPrefix(string(data[:min(4, len(data))]), "\x89PNG") {
		return "image/png"
	}
	return "image/jpeg"
}

// readArtifact reads an artifact of the session of at most that many bytes.
func readArtifact(ctx context.Context, sess *session.Session, sha256 string, most int64) ([]byte, error) {
	f, _, err := sess.OpenArtifact(ctx, sha256)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, most)
}

// readAtMost reads all of r, or fails.
func readAtMost(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = errTooLarge()
	}
	return data, err
}

func errTooLarge() error {
	return api.Errorf(api.CodePayloadTooLarge, "it has more than %d bytes, the limit of a resource; download it over HTTP", maxResource)
}

// counted is a number of things with their name in the singular or plural.
func counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func sessionURI(id string) string { return "talaria://sessions/" + url.PathEscape(id) }
