"""How the server is told about its database: arguments, variables and certificate files. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.operators.model_registry.api import KeyOf, ModelRegistrySpec, MySQL, Postgres
from modelyard.operators.parts import build

CERTIFICATE_MODE = 0o600
PASSWORD_APART = "PGPASSWORD"
"""The variable of a password that cannot stand in the address."""
COLON = "%3A"
"""Stands for a colon in a MySQL user: the address has no escapes of its own, and a colon ends the user name there."""


@dataclass
class Connection:
    """What the server's container and pod get for one database."""

    args: list[str]
    env: list[Object] = field(default_factory=list)
    mounts: list[Object] = field(default_factory=list)
    volumes: list[Object] = field(default_factory=list)

    def file(self, name: str, argument: str, source: KeyOf, *, config_map: bool = False) -> None:
        """A certificate from a Secret or ConfigMap, and the argument that names its file."""
        directory = self.directory(name, source.name, config_map=config_map)
        self.args.append(f"--embedmd-database-{argument}={directory}/{source.key}")

    def directory(self, name: str, source: str, *, config_map: bool) -> str:
        path = f"/etc/{name.replace('-', '_')}"
        volume = build.config_map_volume if config_map else build.secret_volume
        self.volumes.append(volume(name, source, mode=CERTIFICATE_MODE))
        self.mounts.append(build.mount(name, path, read_only=True))
        return path

    def variable(self, name: str, source: KeyOf) -> None:
        self.env.append(build.env_from_secret(name, source.name, source.key))


def connection(spec: ModelRegistrySpec, *, awkward_password: bool = False) -> Connection:
    """PostgreSQL goes before MySQL where both are given."""
    if spec.postgres is not None:
        return _postgres(spec.postgres, awkward_password=awkward_password)
    return _mysql(spec.mysql) if spec.mysql is not None else Connection([])


def _postgres(postgres: Postgres, *, awkward_password: bool) -> Connection:
    password = postgres.password_secret
    user = quote(postgres.username or "", safe="")
    if password is not None and not awkward_password:
        user += ":$(POSTGRES_PASSWORD)"
    host = bracketed(postgres.host_address or postgres.host or "")
    address = f"{host}:{postgres.port}/{quote(postgres.database or '', safe='')}"
    mode = f"?sslmode={postgres.ssl_mode}" if postgres.ssl_mode else ""
    made = Connection(
        ["--embedmd-database-type=postgres", f"--embedmd-database-dsn=postgresql://{user}@{address}{mode}"]
    )
    if password is not None:
        made.variable("POSTGRES_PASSWORD", password)
        if awkward_password:
            # The client library reads this one where the URL holds no password, and takes it as it is.
            made.variable(PASSWORD_APART, password)
    if postgres.ssl_password_secret is not None:
        made.variable("POSTGRES_SSLPASSWORD", postgres.ssl_password_secret)
    if postgres.ssl_certificate_secret is not None:
        made.file("postgres-ssl-cert", "ssl-cert", postgres.ssl_certificate_secret)
    if postgres.ssl_key_secret is not None:
        made.file("postgres-ssl-key", "ssl-key", postgres.ssl_key_secret)
    _root_certificate(made, "postgres", postgres.ssl_root_certificate_config_map, postgres.ssl_root_certificate_secret)
    return made


def _mysql(mysql: MySQL) -> Connection:
    user = mysql.username.replace(":", COLON) + (":$(MYSQL_PASSWORD)" if mysql.password_secret is not None else "")
    address = f"tcp({bracketed(mysql.host)}:{mysql.port})/{quote(mysql.database, safe='')}"
    made = Connection(
        ["--embedmd-database-type=mysql", f"--embedmd-database-dsn={user}@{address}?charset=utf8mb4"],
    )
    if mysql.password_secret is not None:
        made.variable("MYSQL_PASSWORD", mysql.password_secret)
    if mysql.ssl_certificate_secret is not None:
        made.file("mysql-ssl-cert", "ssl-cert", mysql.ssl_certificate_secret)
    if mysql.ssl_key_secret is not None:
        made.file("mysql-ssl-key", "ssl-key", mysql.ssl_key_secret)
    _root_certificate(made, "mysql", mysql.ssl_root_certificate_config_map, mysql.ssl_root_certificate_secret)
    if bundle := mysql.ssl_root_certificates_config_map_name or mysql.ssl_root_certificates_secret_name:
        from_config_map = bool(mysql.ssl_root_certificates_config_map_name)
        path = made.directory("mysql-ssl-rootcerts", bundle, config_map=from_config_map)
        made.args.append(f"--embedmd-database-ssl-ca={path}/")
    if mysql.ssl_cipher is not None:
        made.args.append(f"--embedmd-database-ssl-cipher={mysql.ssl_cipher}")
    if mysql.verify_server_cert is not None:
        verify = str(mysql.verify_server_cert).lower()
        made.args.append(f"--embedmd-database-ssl-verify-server-cert={verify}")
    return made


def _root_certificate(made: Connection, database: str, config_map: KeyOf | None, secret: KeyOf | None) -> None:
    if source := config_map or secret:
        made.file(f"{database}-ssl-rootcert", "ssl-root-cert", source, config_map=config_map is not None)


def bracketed(host: str) -> str:
    """An IPv6 address as URLs want it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def references(spec: ModelRegistrySpec) -> Iterator[tuple[Kind, str, str]]:
    """What the server reads at start, as `(kind, name, key)`; an empty key means all of it."""
    database = spec.postgres if spec.postgres is not None else spec.mysql
    if database is None:
        return
    secrets = [database.password_secret, database.ssl_certificate_secret, database.ssl_key_secret]
    if isinstance(database, Postgres):
        secrets.append(database.ssl_password_secret)
    for secret in secrets:
        if secret is not None:
            yield builtin.Secret, secret.name, secret.key
    if database.ssl_root_certificate_config_map is not None:
        source = database.ssl_root_certificate_config_map
        yield builtin.ConfigMap, source.name, source.key
    elif database.ssl_root_certificate_secret is not None:
        yield builtin.Secret, database.ssl_root_certificate_secret.name, database.ssl_root_certificate_secret.key
    if isinstance(database, MySQL):
        if database.ssl_root_certificates_config_map_name:
            yield builtin.ConfigMap, database.ssl_root_certificates_config_map_name, ""
        elif database.ssl_root_certificates_secret_name:
            yield builtin.Secret, database.ssl_root_certificates_secret_name, ""
