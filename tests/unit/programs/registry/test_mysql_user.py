"""A MySQL user with a colon logs in at a real server, by the address that the operator writes."""

from __future__ import annotations

import pymysql

from modelyard.operators.model_registry.database import COLON
from modelyard.programs.database import Source
from modelyard.programs.registry.process import Config, Server
from modelyard.programs.web import Cors
from tests.unit.programs.databases import DatabaseServer


async def test_a_user_with_a_colon_logs_in(mysql_server: DatabaseServer) -> None:
    with pymysql.connect(host="127.0.0.1", port=mysql_server.port, user="root") as root, root.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE USER 'a:b'@'127.0.0.1' IDENTIFIED BY 'secret'")
        cursor.execute("GRANT ALL ON registry.* TO 'a:b'@'127.0.0.1'")
    user = "a:b".replace(":", COLON)
    dsn = mysql_server.dsn.replace("root@", f"{user}:secret@")
    server = Server(Config("127.0.0.1", 0, Source("mysql", dsn), Cors()))
    await server.start()
    try:
        await server.connect()
        assert server.registry.database is not None
    finally:
        await server.stop()
