package record

// MaxAfterText bounds each text of an [AfterCell], in bytes.
const MaxAfterText = 1 << 10

// AfterCell asks for something that is to be done when the cell has ended: a checkpoint, or with Rollback to go back to one.
// Its texts have at most MaxAfterText bytes. Nothing else about them has been checked.
type AfterCell struct {
	Rollback bool `json:",omitzero"`
	// Name and Level are those of the checkpoint to be made; "" for none, and for the first level that is possible.
	Name  string `json:",omitzero"`
	Level string `json:",omitzero"`
	// To is the id or the name of the checkpoint to go back to, and What the part of it, "" for all.
	To            string `json:",omitzero"`
	What          string `json:",omitzero"`
	KeepUserEdits bool   `json:",omitzero"`
}

// Kind implements [AskBody].
func (AfterCell) Kind() AskKind { return AskAfter }
