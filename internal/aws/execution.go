package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// The statuses of an execution, in Step Functions' words.
const (
	StatusRunning   = "RUNNING"
	StatusSucceeded = "SUCCEEDED"
	StatusFailed    = "FAILED"
	StatusTimedOut  = "TIMED_OUT"
	StatusAborted   = "ABORTED"
)

// Execution is one run of a state machine.
type Execution struct {
	ARN       string
	Status    string // one of Status…, or a word that came later
	Output    string // JSON, when it succeeded
	Error     string // a name such as States.TaskFailed, when it failed
	Cause     string // more of it, for people
	StartedAt time.Time
	EndedAt   time.Time // zero: it has not ended
}

// ExecutionARN returns the ARN of a state machine's execution with this name; "" if machine is not
// the ARN of a state machine. A version or an alias in the machine's ARN is left out.
func ExecutionARN(machine, name string) string {
	parts := strings.Split(machine, ":")
	if len(parts) < 7 || parts[0] != "arn" || parts[2] != "states" || parts[5] != "stateMachine" || parts[6] == "" {
		return ""
	}
	return strings.Join([]string{parts[0], parts[1], "states", parts[3], parts[4], "execution", parts[6], name}, ":")
}

// Start starts an execution with a name of its own and JSON as input. One that was started before
// is a success.
func (a *Account) Start(ctx context.Context, machine, name, input string) error {
	_, err := a.machines.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: &machine, Name: &name, Input: &input})
	if _, there := errors.AsType[*types.ExecutionAlreadyExists](err); there || err == nil {
		return nil
	}
	return fmt.Errorf("start an execution of %s: %w", machine, err)
}

// Describe reads an execution.
func (a *Account) Describe(ctx context.Context, arn string) (Execution, error) {
	found, err := a.machines.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &arn})
	if err != nil {
		return Execution{}, fmt.Errorf("describe the execution %s: %w", arn, err)
	}
	return Execution{ARN: arn, Status: string(found.Status), Output: sdk.ToString(found.Output), Error: sdk.ToString(found.Error),
		Cause: sdk.ToString(found.Cause), StartedAt: sdk.ToTime(found.StartDate).UTC(), EndedAt: utc(found.StopDate)}, nil
}

func utc(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}

// Stop ends an execution. cause is for people who look at it.
func (a *Account) Stop(ctx context.Context, arn, cause string) error {
	if _, err := a.machines.StopExecution(ctx, &sfn.StopExecutionInput{ExecutionArn: &arn, Cause: &cause}); err != nil {
		return fmt.Errorf("stop the execution %s: %w", arn, err)
	}
	return nil
}

// FindMachine looks whether a state machine is there.
func (a *Account) FindMachine(ctx context.Context, arn string) error {
	if _, err := a.machines.DescribeStateMachine(ctx, &sfn.DescribeStateMachineInput{StateMachineArn: &arn}); err != nil {
		return fmt.Errorf("look for the state machine %s: %w", arn, err)
	}
	return nil
}
