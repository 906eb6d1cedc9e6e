package api

type (
	// CommOpened tells that an object inside the kernel opened a comm: a channel to its counterpart in a front end.
	CommOpened struct {
		CommID     string         `json:"comm_id"`
		TargetName string         `json:"target_name"`
		Data       Raw            `json:"data"`
		Metadata   map[string]Raw `json:"metadata"`
		Buffers    [][]byte       `json:"buffers,omitempty"`
	}
	// CommSent is a message that the object sent over its comm.
	CommSent struct {
		CommID   string         `json:"comm_id"`
		Data     Raw            `json:"data"`
		Metadata map[string]Raw `json:"metadata"`
		Buffers  [][]byte       `json:"buffers,omitempty"`
	}
	// CommClosed tells that the object closed its comm.
	CommClosed struct {
		CommID   string         `json:"comm_id"`
		Data     Raw            `json:"data"`
		Metadata map[string]Raw `json:"metadata"`
		Buffers  [][]byte       `json:"buffers,omitempty"`
	}
	// CommHandled tells that the kernel has handled a front end's message over a comm: the one that the event's
	// execution id names.
	CommHandled struct{}
)

// EventType implements [EventBody].
func (CommOpened) EventType() string { return "comm_open" }

// EventType implements [EventBody].
func (CommSent) EventType() string { return "comm_msg" }

// EventType implements [EventBody].
func (CommClosed) EventType() string { return "comm_close" }

// EventType implements [EventBody].
func (CommHandled) EventType() string { return "comm_handled" }

// UserExpressions has the values of the expressions that came with an execution by Jupyter's protocol, by name: each
// {"status":"ok","data","metadata"} or {"status":"error","ename","evalue","traceback"}.
type UserExpressions struct {
	Values Raw `json:"values"`
}

// EventType implements [EventBody].
func (UserExpressions) EventType() string { return "user_expressions" }
