package transfer

import (
	"encoding/json"

	"talaria/api"
)

// List returns the list that [SetList] has put into the metadata of a session, or nil if there is none, or if somebody has changed it by
// the API.
func List[T any](metadata map[string]string, key string) (list []T) {
	if json.Unmarshal([]byte(metadata[key]), &list) != nil {
		return nil
	}
	return list
}

// SetList puts a list into the metadata of a session, as JSON. An empty one has no entry.
func SetList[T any](metadata map[string]string, key string, list []T) error {
	delete(metadata, key)
	if len(list) == 0 {
		return nil
	}
	text, err := api.Marshal(list)
	metadata[key] = string(text)
	return err
}
