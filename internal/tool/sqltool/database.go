package sqltool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/toolgate/toolgate/internal/config"
)

// DatabaseConfig is one entry of `databases`.
type DatabaseConfig struct {
	URL      config.Secret `yaml:"url" doc:"sqlite:PATH of a file that exists, relative to this file's folder, or postgres://USER:PASSWORD@HOST:PORT/NAME"`
	MaxConns int32         `yaml:"max_conns" min:"1" doc:"connections at once; in SQLite, of those that read: writes share one more"`

	target target // made by Check
}

// SetDefaults sets what the file need not say.
func (c *DatabaseConfig) SetDefaults() { c.MaxConns = 4 }

// target is where a URL leads to: exactly one of its fields is set, none before Check and where there is a fault.
type target struct {
	file     string          // SQLite's, absolute
	postgres *pgxpool.Config // not to be changed
}

// Check reads the URL. What it says of a faulty one never repeats it.
func (c *DatabaseConfig) Check(n *config.Node) {
	text := c.URL.Reveal()
	scheme, rest, _ := strings.Cut(text, ":")
	var err error
	switch scheme = strings.ToLower(scheme); {
	case text == "":
		n.FailKey("url", "is required")
	case scheme == "sqlite":
		c.target.file, err = sqliteFile(rest, n.Dir())
	case scheme == "postgres" || scheme == "postgresql":
		c.target.postgres, err = postgresConfig(text)
	default:
		err = errors.New("want an address that begins with sqlite: or postgres://")
	}
	if err != nil {
		n.Get("url").Fail("%v", err)
	}
}

// sqliteFile is the absolute path of a database file. sqlite://PATH is taken as well, as other software writes it.
func sqliteFile(path, dir string) (string, error) {
	path = strings.TrimPrefix(path, "//")
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return "", errors.New("want the path of a file behind the colon")
	case strings.HasPrefix(path, ":memory:"):
		return "", errors.New("want the path of a file: every connection would have a database in memory of its own")
	case strings.ContainsAny(path, "?#"):
		return "", errors.New("want sqlite:PATH without options")
	case !filepath.IsAbs(path):
		path = filepath.Join(dir, path)
	}
	return filepath.Abs(path)
}

// postgresConfig is an address as the driver reads it. Its errors repeat nothing of an address whose parts can't be
// told from each other, and never a password.
func postgresConfig(address string) (*pgxpool.Config, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("want postgres://USER:PASSWORD@HOST:PORT/NAME; what is no letter or digit in the password must be escaped, such as %2F for /")
	}
	c, err := pgxpool.ParseConfig(address)
	if err == nil {
		return c, nil
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	text := err.Error()
	for _, secret := range []string{address, u.Redacted(), u.RawQuery} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	if password, ok := u.User.Password(); ok && password != "" {
		text = strings.ReplaceAll(text, password, "***")
	}
	return nil, fmt.Errorf("the address is not valid: %s", text)
}

// engine is one open database. All its methods may be used at once; each connects when it has to.
type engine interface {
	// run makes one request with its arguments in a transaction of its own.
	run(ctx context.Context, p *plan, args []any) (*result, error)
	ping(ctx context.Context) error
	close() error
}

// Databases are the databases of a file, by name. None is opened before it is used. A nil *Databases has none.
type Databases struct {
	names   []string
	configs map[string]DatabaseConfig

	mu     sync.Mutex
	open   map[string]engine
	closed bool
}

// NewDatabases makes the databases of a file. Where the file has faults, only their names are of use.
func NewDatabases(c config.Map[DatabaseConfig]) *Databases {
	return &Databases{names: c.Keys(), configs: maps.Collect(c.All()), open: map[string]engine{}}
}

// Names are the names in the file's order.
func (d *Databases) Names() []string {
	if d == nil {
		return nil
	}
	return d.names
}

// Ping says whether a database answers. Its error is for the operator: it may name hosts and paths.
func (d *Databases) Ping(ctx context.Context, name string) error {
	e, err := d.engine(name) //nolint:contextcheck // a pool outlives the call that opens it
	if err != nil {
		return err
	}
	return e.ping(ctx)
}

// Close closes the connections of all databases. It waits for calls under way; later ones fail.
func (d *Databases) Close() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	open := d.open
	d.open, d.closed = nil, true
	d.mu.Unlock()
	var errs []error
	for _, e := range open {
		errs = append(errs, e.close())
	}
	return errors.Join(errs...)
}

var errClosed = errors.New("the databases are closed")

// engine is a database, opened by its first use. That connects to nothing yet.
func (d *Databases) engine(name string) (engine, error) {
	if d == nil {
		return nil, fmt.Errorf("no database %q", name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.open[name]; e != nil {
		return e, nil
	}
	if d.closed {
		return nil, errClosed
	}
	c := d.configs[name]
	var e engine
	var err error
	switch {
	case c.target.file != "":
		e = openSQLite(c.target.file, c.MaxConns)
	case c.target.postgres != nil:
		e, err = openPostgres(c.target.postgres, c.MaxConns)
	default:
		err = fmt.Errorf("no database %q", name)
	}
	if err != nil {
		return nil, err
	}
	d.open[name] = e
	return e, nil
}

// dialect is whose SQL a database takes; PostgreSQL's for one that is not known.
func (d *Databases) dialect(name string) dialect {
	if d != nil && d.configs[name].target.file != "" {
		return sqlite
	}
	return postgres
}

// hosts are the host names of a database.
func (d *Databases) hosts(name string) []string {
	if d == nil || d.configs[name].target.postgres == nil {
		return nil
	}
	c := d.configs[name].target.postgres.ConnConfig
	hosts := []string{c.Host}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	slices.Sort(hosts)
	return slices.DeleteFunc(slices.Compact(hosts), filepath.IsAbs) // a socket's folder is no host
}
