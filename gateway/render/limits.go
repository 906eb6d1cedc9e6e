package render

import (
	"math"

	"talaria/api"
)

// Limits are those of a target's messages.
type Limits struct {
	// Text is the longest text of a message in UTF-16 units: on Telegram of what is shown, elsewhere of what is sent.
	Text int
	// Caption is the longest caption of a photo, an album or a document in UTF-16 units.
	Caption int
	// Album is how many photos one message can show.
	Album int
	// AlbumBytes is the most that the photos of one message have together.
	AlbumBytes int64
	// PhotoBytes is the largest photo. A larger one is sent as a document.
	PhotoBytes int64
	// PhotoSides is the most that the width and the height of a photo may be together.
	PhotoSides int64
	// PhotoRatio is how many times as long as the other a side of a photo may be.
	PhotoRatio int64
	// FileBytes is the largest file. A larger one is only named.
	FileBytes int64
	// Width is how many columns of monospaced text a message shows without wrapping.
	Width int
}

// LimitsOf returns the limits of a target.
//
// Telegram: core.telegram.org/bots/api, sendMessage, sendPhoto and sendMediaGroup. Slack: a section block has 3,000
// characters, chat.update 4,000, and a message has at most 10 uploaded files. Discord: 2,000 characters, 10 attachments
// of 10 MiB, 25 MiB in a request; a request to Telegram has 50 MB.
func LimitsOf(t Target) Limits {
	switch t {
	case api.RenderTelegram:
		return Limits{
			Text: 4096, Caption: 1024, Album: 10, AlbumBytes: 48_000_000, PhotoBytes: 10_000_000, PhotoSides: 10_000,
			PhotoRatio: 20, FileBytes: 50_000_000, Width: 48,
		}
	case api.RenderSlack:
		return unlimitedPhotos(Limits{Text: 3000, Caption: 1000, Album: 10, AlbumBytes: 1_000_000_000, FileBytes: 1_000_000_000, Width: 90})
	case api.RenderDiscord:
		return unlimitedPhotos(Limits{Text: 2000, Caption: 2000, Album: 10, AlbumBytes: 24 << 20, FileBytes: 10 << 20, Width: 80})
	}
	return unlimitedPhotos(Limits{Text: math.MaxInt, Caption: 1024, Album: 10, AlbumBytes: math.MaxInt64, FileBytes: math.MaxInt64, Width: 120})
}

func unlimitedPhotos(l Limits) Limits {
	l.PhotoBytes, l.PhotoSides, l.PhotoRatio = l.FileBytes, math.MaxInt64, math.MaxInt32
	return l
}
