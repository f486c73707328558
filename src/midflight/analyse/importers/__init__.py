"""What others logged: the folder is the registry, one file a format, recognised by what stands in a file."""

from midflight.analyse.importers._into_store import StoredRun, import_details, store_runs
from midflight.analyse.importers._read import read_any
from midflight.analyse.importers._source import Unread
from midflight.analyse.importers.base import ImportedRun, Importer, LineImporter, Series

__all__ = [
    "ImportedRun",
    "Importer",
    "LineImporter",
    "Series",
    "StoredRun",
    "Unread",
    "import_details",
    "read_any",
    "store_runs",
]
