from pydantic import BaseModel

from ..api import DBCaseConfig, DBConfig, MetricType

DISTANCES = {MetricType.L2: "l2", MetricType.COSINE: "cosine", MetricType.IP: "ip", MetricType.DP: "ip"}


class WarpliteConfig(DBConfig):
    path: str = "warplite.db"

    def to_dict(self) -> dict:
        return {"path": self.path}


class WarpliteIndexConfig(BaseModel, DBCaseConfig):
    metric_type: MetricType | None = None
    index: str = "flat"
    nprobe: int | None = None

    def index_param(self) -> dict:
        return {"index": self.index, "metric_type": self.metric_type}

    def search_param(self) -> dict:
        return {"nprobe": self.nprobe}
