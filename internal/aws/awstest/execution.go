package awstest

import (
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/aws"
)

// Execution is a state machine's run.
type Execution struct {
	aws.Execution
	Input string
}

// Machine makes a state machine and returns its ARN.
func (s *Server) Machine(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	arn := "arn:aws:states:" + Region + ":" + account + ":stateMachine:" + name
	s.machines[arn] = true
	return arn
}

// Execution reads one by its ARN; the zero one is not there.
func (s *Server) Execution(arn string) Execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.executions[arn]; e != nil {
		return *e
	}
	return Execution{}
}

// End ends an execution as given; its ARN and times stay.
func (s *Server) End(arn string, end aws.Execution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.executions[arn]
	end.ARN, end.StartedAt, end.EndedAt = arn, e.StartedAt, time.Now().UTC()
	e.Execution = end
	s.notify()
}

// Forget takes an execution away, as AWS does ninety days after its end.
func (s *Server) Forget(arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.executions, arn)
}

func (s *Server) startExecution(r *http.Request) (any, *refusal) {
	in, wrong := read[struct{ StateMachineArn, Name, Input string }](r)
	if wrong != nil {
		return nil, wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	arn := aws.ExecutionARN(in.StateMachineArn, in.Name)
	switch e := s.executions[arn]; {
	case arn == "":
		return nil, &refusal{code: "InvalidArn"}
	case !s.machines[in.StateMachineArn]:
		return nil, &refusal{code: "StateMachineDoesNotExist"}
	case len(in.Input) > aws.MaxMessage:
		return nil, &refusal{code: "InvalidExecutionInput"}
	case e != nil && (e.Status != aws.StatusRunning || e.Input != in.Input): // the same one while it runs is a success
		return nil, &refusal{code: "ExecutionAlreadyExists"}
	case e == nil:
		s.executions[arn] = &Execution{aws.Execution{ARN: arn, Status: aws.StatusRunning, StartedAt: time.Now().UTC()}, in.Input}
		s.notify()
	}
	return map[string]any{"executionArn": arn, "startDate": seconds(s.executions[arn].StartedAt)}, nil
}

func (s *Server) describeExecution(r *http.Request) (any, *refusal) {
	in, wrong := read[struct{ ExecutionArn string }](r)
	if wrong != nil {
		return nil, wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.executions[in.ExecutionArn]
	if e == nil {
		return nil, &refusal{code: "ExecutionDoesNotExist"}
	}
	answer := map[string]any{"executionArn": e.ARN, "stateMachineArn": "", "status": e.Status,
		"startDate": seconds(e.StartedAt), "input": e.Input}
	if !e.EndedAt.IsZero() {
		answer["stopDate"] = seconds(e.EndedAt)
	}
	for name, text := range map[string]string{"output": e.Output, "error": e.Error, "cause": e.Cause} {
		if text != "" {
			answer[name] = text
		}
	}
	return answer, nil
}

func (s *Server) stopExecution(r *http.Request) (any, *refusal) {
	in, wrong := read[struct{ ExecutionArn, Cause string }](r)
	if wrong != nil {
		return nil, wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.executions[in.ExecutionArn]
	if e == nil {
		return nil, &refusal{code: "ExecutionDoesNotExist"}
	}
	if e.Status == aws.StatusRunning {
		e.Status, e.Cause, e.EndedAt = aws.StatusAborted, in.Cause, time.Now().UTC()
		s.notify()
	}
	return map[string]any{"stopDate": seconds(e.EndedAt)}, nil
}

func (s *Server) describeMachine(r *http.Request) (any, *refusal) {
	in, wrong := read[struct{ StateMachineArn string }](r)
	if wrong != nil {
		return nil, wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.machines[in.StateMachineArn] {
		return nil, &refusal{code: "StateMachineDoesNotExist"}
	}
	return map[string]any{"stateMachineArn": in.StateMachineArn, "name": "", "type": "STANDARD", "status": "ACTIVE"}, nil
}
