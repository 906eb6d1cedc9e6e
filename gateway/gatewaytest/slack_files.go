package gatewaytest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"
)

func (f *Slack) uploadURL(q slackFields) (map[string]any, string) {
	length, _ := strconv.Atoi(q["length"])
	if length <= 0 || q["filename"] == "" || utf8.RuneCountInString(q["alt_txt"]) > slackAltText {
		return nil, "invalid_arguments"
	}
	id := fmt.Sprintf("F%d", len(f.files)+1)
	f.files[id] = &slackFile{File: File{ID: id, Name: q["filename"]}, length: length}
	return map[string]any{"upload_url": f.server.URL + "/upload/" + id, "file_id": id}, ""
}

// receive takes the bytes of an upload, which have to be as many as were announced.
func (f *Slack) receive(w http.ResponseWriter, r *http.Request, id string) {
	var data []byte
	part, _, err := r.FormFile("file")
	if err == nil {
		data, err = io.ReadAll(part)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.files[id]
	if err != nil || file == nil || file.uploaded || len(data) != file.length {
		http.Error(w, "upload failed", http.StatusBadRequest)
		return
	}
	file.Data, file.Type, file.uploaded = data, http.DetectContentType(data), true
	fmt.Fprintf(w, "OK - %d", len(data))
}

func (f *Slack) completeUpload(q slackFields) (map[string]any, string) {
	var files []struct{ ID, Title string }
	if json.Unmarshal([]byte(q["files"]), &files) != nil || len(files) == 0 || len(files) > 10 {
		return nil, "invalid_arguments"
	}
	if !f.channels[q["channel_id"]] {
		return nil, "channel_not_found"
	}
	m := &SlackMessage{Channel: q["channel_id"], Thread: q["thread_ts"], Text: q["initial_comment"]}
	var shown []any
	for _, named := range files {
		file := f.files[named.ID]
		if file == nil || !file.uploaded || file.shared {
			return nil, "file_not_found"
		}
		m.Files = append(m.Files, file.File)
		shown = append(shown, map[string]any{"id": named.ID, "title": named.Title})
	}
	for _, named := range files {
		f.files[named.ID].shared = true
	}
	f.add(m)
	return map[string]any{"files": shown}, ""
}

// serveFile is url_private: it needs the bot's token.
func (f *Slack) serveFile(w http.ResponseWriter, r *http.Request, id string) {
	f.mu.Lock()
	file := f.files[id]
	f.mu.Unlock()
	if file == nil || r.Header.Get("Authorization") != "Bearer "+f.BotToken {
		http.Error(w, "not allowed", http.StatusForbidden)
		return
	}
	_, _ = w.Write(file.Data)
}
