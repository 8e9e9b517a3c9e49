package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// connection returns the current connection, or waits for one start that all callers share.
// A caller that gives up does not end the start.
func (s *Server) connection(ctx context.Context) (*connection, error) {
	for waited := false; ; waited = true {
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return nil, s.unavailable("is closed: " + errClosed.Error())
		case s.conn != nil:
			defer s.mu.Unlock()
			return s.conn, nil
		case s.starting == nil && waited && s.failure != nil:
			defer s.mu.Unlock()
			return nil, s.unavailable(fmt.Sprintf("cannot be used: %v", s.failure))
		case s.starting == nil && time.Now().Before(s.notUntil):
			defer s.mu.Unlock()
			return nil, s.unavailable(fmt.Sprintf("failed %d times in a row (%v) and is tried again in %v",
				s.failures, s.failure, time.Until(s.notUntil).Round(time.Second)+time.Second))
		case s.starting == nil:
			s.starting = make(chan struct{})
			s.work.Go(s.start)
		}
		starting := s.starting
		s.mu.Unlock()
		select {
		case <-starting:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the MCP server %s: %w", s.cfg.Name, context.Cause(ctx))
		}
	}
}

// start connects and watches the connection to its end.
func (s *Server) start() {
	conn, tools, err := s.reach()
	s.mu.Lock()
	close(s.starting)
	s.starting = nil
	if err != nil {
		s.fail(err)
		s.mu.Unlock()
		return
	}
	s.conn, s.tools, s.failure = conn, tools, nil
	closed := s.closed
	s.mu.Unlock()
	s.log.Info("an MCP server is up", "functions", len(tools.functions))
	if closed { // closed meanwhile; Close saw no connection
		conn.close(errClosed)
	}
	s.attend(conn)
}

// reach tries the ways to connect and moves the one that worked to the front.
func (s *Server) reach() (*connection, *tools, error) {
	if err := s.cfg.validate(); err != nil {
		return nil, nil, err
	}
	var first error
	for range s.ways {
		conn, tools, err := s.try(s.ways[0])
		if err == nil {
			return conn, tools, nil
		}
		if first == nil {
			first = err
		}
		if s.life.Err() != nil {
			break
		}
		s.ways = append(s.ways[1:], s.ways[0])
	}
	return nil, nil, first
}

func (s *Server) try(w way) (*connection, *tools, error) {
	ctx, cancel := context.WithTimeoutCause(s.life, s.startTime, errTooSlow)
	defer cancel()
	conn, err := connect(ctx, s.life, w, s.log)
	if err != nil {
		return nil, nil, err
	}
	tools, err := listTools(ctx, conn.session, s.cfg, s.log)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		conn.close(fmt.Errorf("its tools could not be listed: %w", err))
		return nil, nil, context.Cause(conn.life)
	}
	return conn, tools, nil
}

// attend refreshes the list of tools when it changes, until the connection ends.
func (s *Server) attend(conn *connection) {
	for {
		select {
		case <-conn.changed:
			s.refresh(conn.life, conn)
			continue
		case <-conn.done:
		}
		break
	}
	s.drop(conn)
}

// drop forgets a connection that has ended, and records why.
func (s *Server) drop(conn *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != conn {
		return
	}
	s.conn = nil
	err := context.Cause(conn.life)
	if errors.Is(err, errClosed) {
		return
	}
	if time.Since(conn.opened) > stableTime {
		s.failures = 0
	}
	s.fail(err)
}

// fail records a failure and sets the back-off. s.mu is held.
func (s *Server) fail(err error) {
	s.failure = err
	s.failures++
	if s.failures > 1 {
		s.notUntil = time.Now().Add(min(firstWait<<min(s.failures-2, 10), longWait))
	}
	if !s.closed {
		s.log.Warn("an MCP server is down", "error", redactURLs(err.Error()), "failures", s.failures)
	}
}

// refresh lists the tools again. If that fails the old list stays.
func (s *Server) refresh(ctx context.Context, conn *connection) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	tools, err := listTools(ctx, conn.session, s.cfg, s.log)
	if err != nil {
		s.log.Warn("the tools of an MCP server could not be listed again", "error", redactURLs(err.Error()))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.tools = tools
	}
}
