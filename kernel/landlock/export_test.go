package landlock

// Enough says why a version of Landlock is not enough for root, or for an ordinary user.
func Enough(root bool, version int) error { return (&tier{root: root}).Landlock(version) }

// Remedy says what to do about a step that failed.
func Remedy(step string, err error) string { return (&tier{}).Remedy(step, err) }

// UserTasks counts what this process's user runs.
func UserTasks() int64 { return userTasks() }
