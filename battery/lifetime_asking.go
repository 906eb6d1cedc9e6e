package battery

import "talaria/api"

// lifetimeAsking are attempts to outlive a timeout by waiting for an answer.
var lifetimeAsking = []Check{
	{Name: "lifetime/question-in-a-thread", Alone: true, Cell: `
threading.Thread(target=input, daemon=True).start()
end = time.monotonic() + 60 # gets a second of CPU time on a busy machine too
while time.monotonic() < end: pass`,
		Request: api.ExecutionRequest{TimeoutS: new(1.0), AllowStdin: new(true)},
		Judge:   ends(api.StatusTimeout, "timeout", api.VariablesKept)},
}
