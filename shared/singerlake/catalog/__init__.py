"""The Iceberg REST catalog of a lake's tables; only this folder imports starlette and uvicorn."""
