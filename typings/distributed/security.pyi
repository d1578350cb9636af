from typing import Any

class Security:
    def get_connection_args(self, role: str) -> dict[str, Any]: ...
