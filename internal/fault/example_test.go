package fault_test

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/fault"
)

// A code survives wrapping. It decides the HTTP status and the exit status of a command.
func ExampleCodeOf() {
	err := fault.New(fault.NotFound, "pipeline %q not found", "gretter").WithHint("did you mean %q?", "greeter")
	wrapped := fmt.Errorf("plan the deployment: %w", err)

	code := fault.CodeOf(wrapped)
	fmt.Println(wrapped)
	fmt.Println(code, code.HTTP(), code.Exit())
	fmt.Println(fault.HintOf(wrapped))
	// Output:
	// plan the deployment: pipeline "gretter" not found
	// not_found 404 2
	// did you mean "greeter"?
}

// A file's faults are reported all at once, each with its place.
func ExampleProblems() {
	var problems fault.Problems
	problems.Add(fault.Problem{
		Position:   fault.Position{File: "waybill.yaml", Line: 7, Column: 3},
		Code:       "key-unknown",
		Text:       `unknown key "stagse"`,
		Suggestion: fault.Nearest("stagse", []string{"pipeline", "stages"}),
	})
	problems.Add(fault.Problem{Position: fault.Position{File: "waybill.yaml", Line: 2, Column: 1}, Code: "field-missing",
		Text: `the field "hosts" is missing`})
	problems.Sort()
	fmt.Println(problems.Err())
	// Output:
	// waybill.yaml:2:1: the field "hosts" is missing
	// waybill.yaml:7:3: unknown key "stagse" (did you mean "stages"?)
}
