"""The price of the day, as SQL."""

PRICE_JOIN = """
          LEFT JOIN (SELECT id, model, dollars_per_million, effective_from,
                            lead(effective_from, 1, 'infinity')
                                OVER (PARTITION BY model ORDER BY effective_from) AS until
                       FROM dashboard_modelprice) price
            ON price.model = rollups.model
           AND rollups.start >= price.effective_from AND rollups.start < price.until
"""
"""Joins `rollups` with the prices of their models that held on their day."""
