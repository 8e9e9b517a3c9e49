package oneshot

// On Windows there is no command primitives: PowerShell changes the arguments that it
// passes to programs.

type commandServer struct{}

func (*commandServer) close() error { return nil }

type commandClient struct{}

func (*Runner) newCommandClient() *commandClient { return nil }

func (*commandClient) bind(*attempt) {}

func (*commandClient) addTo(env []string) []string { return env }

func (*commandClient) close() {}
