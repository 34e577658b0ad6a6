package sqltool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is the PostgreSQL of this package's tests, started by the first that needs it.
var server postgresServer

type postgresServer struct {
	once    sync.Once
	err     error
	address *url.URL
	cmd     *exec.Cmd
	dir     string
	count   atomic.Int32 // of databases made
}

var errNoPostgres = errors.New("no PostgreSQL is installed: apt-get install postgresql")

// start starts a server on a free port in a folder of its own.
func (s *postgresServer) start() error {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, filepath.Dir(path))
	}
	if len(found) == 0 {
		return errNoPostgres
	}
	bin := found[len(found)-1]
	var err error
	if s.dir, err = os.MkdirTemp("", "sqltool"); err != nil {
		return err
	}
	if err := own(s.dir); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	if out, err := command(filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	s.address = &url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path: "/postgres", RawQuery: "sslmode=disable",
	}
	s.cmd = command(filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off",
		"-c", "max_connections=30", "-c", "autovacuum=off", "-c", "timezone=UTC")
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) { // nothing tells when it listens
		conn, err := pgx.Connect(context.Background(), s.address.String())
		if err == nil {
			return conn.Close(context.Background())
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%w: %s", err, said)
		}
	}
}

func (s *postgresServer) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(os.Interrupt) // "fast": clients are cut off
		_ = s.cmd.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// own gives a folder to the user that the server runs as: it refuses to be root.
func own(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return os.Chown(dir, uid, gid)
}

// command is a program of PostgreSQL, as the user that it runs as.
func command(argv ...string) *exec.Cmd {
	if os.Getuid() == 0 {
		argv = slices.Concat([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=INT"}, argv)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/" // where every user may be
	return cmd
}

// newPostgres is a database with what the script makes, gone after the test. Its dump is every row of every table, and
// what is in the schema.
func newPostgres(t testing.TB, script string) *database {
	t.Helper()
	server.once.Do(func() { server.err = server.start() })
	switch {
	case errors.Is(server.err, errNoPostgres) && os.Getenv("CI") == "":
		t.Skip(server.err)
	case server.err != nil:
		t.Fatal(server.err)
	}
	name := fmt.Sprintf("test%d", server.count.Add(1))
	run(t, server.address.String(), "CREATE DATABASE "+name)
	address := *server.address
	address.Path = "/" + name
	t.Cleanup(func() { run(t, server.address.String(), "DROP DATABASE "+name+" WITH (FORCE)") })
	d := newDatabase(t, "postgres", address.String())
	d.exec = func(t testing.TB, script string) {
		t.Helper()
		run(t, d.url, script)
	}
	d.dump = func(t testing.TB) string {
		t.Helper()
		return dumpPostgres(t, d.url)
	}
	if script != "" {
		d.exec(t, script)
	}
	return d
}

// run runs any statements as the owner.
func run(t testing.TB, address, script string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also while the test is cleaned up
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, script).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

func dumpPostgres(t testing.TB, address string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var b strings.Builder
	for _, query := range []string{
		"SELECT c.relkind::text || c.relname::text || coalesce(pg_sequence_last_value(CASE WHEN c.relkind = 'S' THEN c.oid END)::text, '') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' ORDER BY 1",
		"SELECT table_to_xml(c.oid, true, false, '')::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r' ORDER BY c.relname",
		"SELECT rolname::text || rolsuper::text FROM pg_roles ORDER BY 1",
		"SELECT oid::text FROM pg_largeobject_metadata",
		"SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'",
	} {
		rows, err := conn.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, lines)
	}
	return b.String()
}
